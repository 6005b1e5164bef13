"""`tidings subscribe` to aggregates over windows: what the options mean, and what is said of those that do not go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.subscribe import results
from testing.commands import Said, Tidings
from tidings.aggregate import Aggregate, Function, parse
from tidings.control import Snapshot
from tidings.window import LONGEST_NAME, read_window

FIELDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
FUNCTIONS = st.builds(Aggregate, st.sampled_from([Function.AVG, Function.SUM, Function.COUNT, Function.LAST]), FIELDS) | st.just(
    Aggregate(Function.COUNT)
)


@pytest.fixture
def subscribe(tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Said, dict[str, Any]]]:
    """Subscribes, and says what record was written."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr("cli.connecting.connect", lambda *_: None)
    measured = Snapshot().apply(1, "topic/reading", b'{"kind": "topic", "name": "reading", "gather": false}')
    monkeypatch.setattr("clients.control.read_control", lambda _: measured)
    monkeypatch.setattr("cli.subscribe.write", lambda _connection, records, **_: written.append(records[0][1]))

    def command(*options: str) -> tuple[Said, dict[str, Any]]:
        written.clear()
        said = tidings("subscribe", "speed", "--topic", "reading", "--no-follow", *options)
        return said, written[0] if written else {}

    return command


def words(said: Said) -> str:
    """What a usage error says, without the frame around it."""
    assert said.code == 2
    return " ".join(said.err.replace("│", " ").split())


# ---- what is subscribed to --------------------------------------------------------------------------------------------


def test_the_window_its_functions_and_the_rest(subscribe: Callable[..., Any]) -> None:
    said, record = subscribe("--window", "10s/5s", "--of", "avg(speed)", "--of", "n = COUNT( )", "--where", "road = 'E45'")
    assert (said.code, said.err) == (0, "")
    assert record == {
        "kind": "subscription",
        "name": "speed",
        "subscriber": "speed",
        "broker": "b1",
        "topic": "reading",
        "where": "road = 'E45'",
        "window": {"size_ms": 10_000, "shift_ms": 5_000, "of": {"n": "count()", "avg_speed": "avg(speed)"}},
    }


@pytest.mark.parametrize(
    ("options", "window"),
    [
        (["--window", "1m", "--grace", "2s", "--empty"], {"size_ms": 60_000, "grace_ms": 2_000, "empty": True}),
        (["--window", "100/50"], {"size": 100, "shift": 50}),
        (["--window", "500ms", "--grace", "0s"], {"size_ms": 500, "grace_ms": 0}),
        (["--window", "1s", "--heartbeat-ms", "5000"], {"size_ms": 1_000}),
    ],
)
def test_the_other_options(subscribe: Callable[..., Any], options: list[str], window: dict[str, Any]) -> None:
    _, record = subscribe(*options, "--of", "count()")
    assert record["window"] == {**window, "of": {"count": "count()"}}


def test_without_a_topic_it_is_about_its_own_name_and_that_events_count_is_said(
    tidings: Tidings, subscribe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[dict[str, Any]] = []
    monkeypatch.setattr("cli.subscribe.write", lambda _connection, records, **_: written.append(records[0][1]))
    said = tidings("subscribe", "speed", "--no-follow", "--window", "10s/5s", "--of", "avg(speed)")
    assert [record["topic"] for record in written] == ["speed"]
    assert said.code == 0
    assert "the topic 'speed' gathers, so its events count" in said.err
    assert subscribe("--window", "10s/5s", "--of", "avg(speed)")[0].err == ""


def test_without_a_window_nothing_is_said_of_one(subscribe: Callable[..., Any]) -> None:
    _, record = subscribe()
    assert "window" not in record


# ---- what does not go together ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value"), [("--of", ["avg(speed)"]), ("--grace", ["2s"]), ("--empty", [])])
def test_what_is_about_windows_needs_one(subscribe: Callable[..., Any], option: str, value: list[str]) -> None:
    said, record = subscribe(option, *value)
    assert f"{option}: this is about windows: name one too, as in --window 10s/5s" in words(said)
    assert record == {}


def test_a_window_needs_something_to_tell(subscribe: Callable[..., Any]) -> None:
    said, record = subscribe("--window", "10s")
    assert "--window: say what is told of each window, as in --of 'avg(speed)'" in words(said)
    assert record == {}


@pytest.mark.parametrize("option", [["--every-ms", "5"], ["--settle-ms", "5"], ["--at-most", "5"], ["--fields", "speed"]])
def test_what_is_about_single_events_goes_with_no_window(subscribe: Callable[..., Any], option: list[str]) -> None:
    said, record = subscribe("--window", "10s", "--of", "avg(speed)", *option)
    assert f"{option[0]}: this is about single events, and with --window none is told" in words(said)
    assert record == {}


@pytest.mark.parametrize("grace", ["2", "2s/1s", "soon", "", "-1s", "2 s"])
def test_a_grace_that_is_no_time(subscribe: Callable[..., Any], grace: str) -> None:
    said, _ = subscribe("--window", "10s", "--of", "avg(speed)", f"--grace={grace}")
    assert f"{grace!r} is no time; it is written as 500ms, 2s or 1m" in words(said)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--window", "10", "--of", "avgg(speed)"], "at position 0 of 'avgg(speed)'"),
        (["--window", "10", "--of", "a=avg("], "at position 4 of 'avg('"),
        (["--window", "ten", "--of", "count()"], "'ten' is no span"),
        (["--window", "10x/5s", "--of", "count()"], "'10x/5s' is no span: write '10s/5s' or '1m'"),
        (["--window", "365d", "--of", "count()"], "'size_ms' must be an integer of milliseconds from 1 to 2678400000"),
        (["--window", "5s/0s", "--of", "count()"], "'shift_ms' must be an integer of milliseconds from 1 to 2678400000, not 0"),
        (["--window", "10s/1ms", "--of", "count()"], "'size_ms' must be at most 1000 times 'shift_ms'"),
        (["--window", "10s", "--of", "top(0, road)"], "expected an integer from 1 to 100 of top(k, field), found '0'"),
        (["--window", "10s", "--of", "ema(speed, 1.5)"], "expected a number above 0 and up to 1 of ema(field, alpha)"),
        (["--window", "0s", "--of", "count()"], "'size_ms' must be an integer of milliseconds from 1"),
        (["--window", "10s", "--of", "=count()"], "the name of a result has 1 to"),
        (["--window", "100", "--of", "count()", "--grace", "2s"], "'grace_ms' does not go with 'size'"),
        (["--window", "10s", "--of", "count()", "--grace", "9d"], "'grace_ms' must be an integer"),
    ],
)
def test_a_wrong_window_is_one_line(subscribe: Callable[..., Any], options: list[str], complaint: str) -> None:
    said, record = subscribe(*options)
    assert (said.code, record) == (2, {})
    assert complaint in said.complaint


def test_two_results_of_one_name(subscribe: Callable[..., Any]) -> None:
    said, _ = subscribe("--window", "10s", "--of", "a=avg(x)", "--of", "a=sum(x)")
    assert "--of: two results are called 'a'" in words(said)


# ---- the names of results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (["avg(speed)"], {"avg_speed": "avg(speed)"}),
        (["count()", "count(speed)"], {"count": "count()", "count_speed": "count(speed)"}),
        (["top(3, road)"], {"top_road": "top(3, road)"}),
        (["avg(speed)", "AVG(speed)"], {"avg_speed": "avg(speed)"}),
        (["count()", "count=sum(speed)"], {"count": "sum(speed)", "count_2": "count()"}),
        (['avg("in [km/h]")'], {"avg_in_km_h": 'avg("in [km/h]")'}),
        (['avg("a=b")'], {"avg_a_b": 'avg("a=b")'}),
        (['x=avg("a=b")'], {"x": 'avg("a=b")'}),
        (['avg("!")'], {"avg": 'avg("!")'}),
    ],
)
def test_a_result_is_called_after_its_function(of: list[str], found: dict[str, str]) -> None:
    assert results(of) == found


@given(functions=st.lists(FUNCTIONS, max_size=12), named=st.dictionaries(st.sampled_from(["avg", "avg_a", "n"]), FUNCTIONS))
def test_every_function_is_told_under_a_name_of_its_own(functions: list[Aggregate], named: dict[str, Aggregate]) -> None:
    found = results([*map(str, functions), *(f"{name}={function}" for name, function in named.items())])
    assert {name: parse(found[name]) for name in named} == named
    assert {parse(text) for name, text in found.items() if name not in named} == set(functions)
    assert len(found) == len(named) + len(set(functions))
    assert all(name.replace("_", "").isalnum() and len(name) <= LONGEST_NAME for name in found)
    if found:
        assert len(read_window({"size_ms": 1, "of": found}).of) == len(found)


def test_help_has_a_panel_of_its_own(tidings: Tidings) -> None:
    said = tidings("subscribe", "--help")
    assert said.code == 0
    assert "Over windows" in said.out
    for shown in ("--window", "SIZE[/SHIFT]", "[NAME=]FUNCTION", "--grace", "--empty"):
        assert shown in said.out
