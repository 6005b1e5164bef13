"""`tidings decisions`: choices as they are made, and what they saved."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from cli.decisions import Savings, Wanted, decision_line, windows_table
from cli.show import span
from clients.connection import Connection
from clients.topics import ensure_topics, service_topics
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from streaming.wire.decisions import AnyDecided, decision_dict
from testing.commands import Said, Tidings
from tidings import names

PROGRAM = [sys.executable, "-c", "from cli.main import run; run()"]
AGGREGATED = WindowDecided(
    "b1", "b2", "reading", "speed", 10_000, 20_000, "adock", "aggregate", "in-cover", 12, 1, {"forward": 12, "aggregate": 1}
)
FORWARDED = WindowDecided(
    "b1", "b2", "reading", "speed", 20_000, 30_000, "adock", "forward", "not-in-cover", 2, 2, {"forward": 2, "aggregate": 1}
)
BACK = replace(FORWARDED, sender="b2", to="b1", topic="noise", would={"forward": 0, "aggregate": 0}, items=1, sent=0)
FILTER = FilterDecided("b1", "incident", 0, 60_000, "profile", "below-98%", 1200, 40, {"event": 1200, "profile": 40})
ALL: tuple[AnyDecided, ...] = (AGGREGATED, FILTER, FORWARDED, BACK)


def line(*decided: AnyDecided) -> str:
    """The line of the last of them, without its time."""
    savings = Savings()
    for each in decided:
        savings.add(each)
    said = decision_line(decided[-1], savings).plain
    assert said.startswith(f"{span(decided[-1].start_ms, decided[-1].end_ms)}  ")
    return said.removeprefix(f"{span(decided[-1].start_ms, decided[-1].end_ms)}  ")


# ---- lines ------------------------------------------------------------------------------------------------------------


def test_a_choice_for_a_window_is_one_line_with_the_saving_so_far() -> None:
    assert line(AGGREGATED) == (
        "b1→b2  reading · speed  aggregate  12 items → 1 sent  (in-cover, adock)"
        "  saved so far: 92% of always forward, 0% of always aggregate"
    )
    assert line(AGGREGATED, FORWARDED) == (
        "b1→b2  reading · speed  forward    2 items → 2 sent  (not-in-cover, adock)"
        "  saved so far: 79% of always forward, -50% of always aggregate"
    )


def test_no_saving_is_named_where_nothing_would_have_crossed() -> None:
    assert line(AGGREGATED, BACK) == "b2→b1  noise · speed  forward    1 item → 0 sent  (not-in-cover, adock)"


def test_a_choice_of_a_filter_has_its_own_form() -> None:
    assert line(FILTER) == (
        "b1  incident  filter profile  1,200 offered → 40 sent  (below-98%; would have sent: event 1,200, profile 40)"
    )


@pytest.mark.parametrize("decided", [AGGREGATED, FILTER])
def test_strangers_move_no_cursor(decided: AnyDecided) -> None:
    written = {"sender", "topic", "reason", "to", "subscription", "decider"} & set(decided.__slots__)
    texts = dict.fromkeys(written, "\x1b[2J[red]")
    said = line(replace(decided, **texts, would={"\x1b[1m": 3}))
    assert said.isprintable()
    assert said.count("\\x1b[2J[red]") == len(texts)


# ---- which --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [AGGREGATED, FILTER, FORWARDED, BACK]),
        ({"link": "b1-b2"}, [AGGREGATED, FORWARDED, BACK]),
        ({"link": "b2-b1"}, [AGGREGATED, FORWARDED, BACK]),
        ({"link": "b1→b2"}, [AGGREGATED, FORWARDED]),
        ({"link": "b1"}, []),
        ({"link": "b1-None"}, []),
        ({"sender": "b1"}, [AGGREGATED, FILTER, FORWARDED]),
        ({"to": "b1"}, [BACK]),
        ({"to": "b1", "sender": "b1"}, []),
        ({"topic": "reading"}, [AGGREGATED, FORWARDED]),
        ({"topic": "incident", "sender": "b1"}, [FILTER]),
    ],
)
def test_what_is_asked_for(asked: dict[str, str], found: list[AnyDecided]) -> None:
    assert list(filter(Wanted(**asked), ALL)) == found


def test_names_with_hyphens_are_not_taken_apart() -> None:
    odd = replace(AGGREGATED, sender="a-b", to="c")
    assert Wanted(link="a-b-c")(odd)
    assert Wanted(link="c-a-b")(odd)
    assert not Wanted(link="b-c")(odd)


# ---- the table ----------------------------------------------------------------------------------------------------------


def cells(table: Any) -> list[list[str]]:
    return [list(row) for row in zip(*([*column.cells] for column in table.columns), strict=True)]


def test_a_row_for_each_direction_and_a_sum() -> None:
    savings = Savings()
    for each in ALL:
        savings.add(each)
    table = windows_table(savings.by_link)
    always = ["always forward", "saved", "always aggregate", "saved"]
    assert [column.header for column in table.columns] == ["from", "to", "windows", "forwarded", "aggregated", "crossed", *always]
    assert cells(table) == [
        ["b1", "b2", "2", "1", "1", "3", "14", "79%", "2", "-50%"],
        ["b2", "b1", "1", "1", "0", "0", "0", "", "0", ""],
    ]
    assert table.show_footer
    assert [column.footer for column in table.columns] == ["all", "", "3", "2", "1", "3", "14", "79%", "2", "-50%"]


def test_one_link_needs_no_sum() -> None:
    savings = Savings()
    savings.add(AGGREGATED)
    assert not windows_table(savings.by_link).show_footer


# ---- the command --------------------------------------------------------------------------------------------------------


class Script:
    """A reader for which everything was chosen before; then comes Ctrl-C, if anybody still listens."""

    def __init__(self, _connection: object, from_beginning: bool) -> None:
        self.left = list(ALL) if from_beginning else list(ALL[:1])

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = []

    def receive(self, _timeout_s: float) -> AnyDecided | None:
        if not self.left:
            raise KeyboardInterrupt
        return self.left.pop(0)


@pytest.fixture
def command(tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """`tidings decisions`, with a Kafka topic that has it all."""
    monkeypatch.setattr("cli.connecting.connect", lambda *_: None)
    monkeypatch.setattr("clients.decisions.DecisionReader", Script)
    monkeypatch.setattr("clients.decisions.read_decisions", lambda _: list(ALL))
    return lambda *options: tidings("decisions", *options)


def test_ctrl_c_ends_it_with_the_table(command: Callable[..., Said]) -> None:
    said = command("--from-beginning")
    assert (said.code, said.err) == (130, "")
    lines = said.out.splitlines()
    assert [each.partition("  ")[2].split("  ")[0] for each in lines[:4]] == ["b1→b2", "b1", "b1→b2", "b2→b1"]
    assert lines[4] == "Windows"
    rows = [each.split()[:3] for each in lines[5:]]
    assert [row for row in rows if row and row[0] in ("b1", "b2", "all")] == [
        ["b1", "b2", "2"],
        ["b2", "b1", "1"],
        ["all", "3", "2"],
    ]


def test_only_what_is_new_unless_it_is_asked_for(command: Callable[..., Said]) -> None:
    assert command("--count", "1").out.count("→ 1 sent") == 1
    assert "forward  " not in command("--json").out


def test_enough_is_enough(command: Callable[..., Said]) -> None:
    said = command("--from-beginning", "--count", "2", "--link", "b1-b2", "--json")
    assert said.code == 0
    first, second, last = map(json.loads, said.out.splitlines())
    assert (first, second) == (decision_dict(AGGREGATED), decision_dict(FORWARDED))
    assert last == {
        "links": {
            "b1→b2": {
                "windows": 2,
                "forwarded": 1,
                "aggregated": 1,
                "sent": 3,
                "would": {"aggregate": 2, "forward": 14},
                "saved_against_forward": 11,
                "saved_against_aggregate": -1,
            }
        }
    }


def test_too_few_in_time_is_a_failure_and_what_came_is_summed_up(command: Callable[..., Said]) -> None:
    said = command("--json", "--count", "3", "--timeout", "0")
    assert (said.code, json.loads(said.out)) == (1, {"links": {}})
    assert said.err == "tidings: only 0 of 3 choices came within 0 s\n"


def test_a_summary_ends_by_itself(command: Callable[..., Said]) -> None:
    said = command("--summary")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == "Windows"
    assert "sent" not in said.out
    assert list(command("--summary", "--json").json["links"]) == ["b1→b2", "b2→b1"]
    assert list(command("--summary", "--json", "--from", "b2").json["links"]) == ["b2→b1"]


def test_a_summary_of_nothing(command: Callable[..., Said]) -> None:
    said = command("--summary", "--topic", "incident")  # a filter's choice, and no window's
    assert (said.code, said.out, said.err) == (0, "", "nothing was chosen for windows\n")


@pytest.mark.parametrize("option", [["--count", "1"], ["--timeout", "1"]])
def test_a_summary_waits_for_nothing(command: Callable[..., Said], option: list[str]) -> None:
    said = command("--summary", *option)
    assert said.code == 2
    assert "--summary" in said.err


def test_it_has_help_with_an_example(tidings: Tidings) -> None:
    said = tidings("decisions", "--help")
    assert said.code == 0
    assert "Example: tidings decisions" in said.out


def test_no_service_is_one_line(tidings: Tidings) -> None:
    assert tidings("decisions", "--dir", "nowhere").complaint.startswith("no service is ready in nowhere; ")


# ---- with a Kafka -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """To a Kafka of these tests' own, with the topics of a service and some choices."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("decisions-kafka"), java) as broker:
        connection = Connection(broker.bootstrap)
        ensure_topics(connection, service_topics(1, 1))
        choose(connection, *ALL, AGGREGATED)  # one was written again after a crash
        yield connection


def choose(connection: Connection, *decided: AnyDecided) -> None:
    producer = connection.producer()
    for each in decided:
        producer.produce(names.DECISIONS, json.dumps(decision_dict(each)).encode(), partition=0)
    assert producer.flush(10) == 0


def test_live_all_there_is_and_what_comes(connection: Connection, tidings: Tidings) -> None:
    reach = ["--bootstrap-servers", connection.bootstrap]
    links = tidings("decisions", "--summary", "--json", *reach).json["links"]
    assert {way: each["windows"] for way, each in links.items()} == {"b1→b2": 2, "b2→b1": 1}
    said = tidings("decisions", "--from-beginning", "--count", "4", "--timeout", "20", *reach)
    assert said.code == 0
    assert said.out.count(" sent  (") == 4
    assert "Windows" in said.out
    command = [*PROGRAM, "decisions", "--from-beginning", "--json", *reach]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline()) for _ in ALL] == [decision_dict(each) for each in ALL]
        choose(connection, replace(FORWARDED, start_ms=30_000, end_ms=40_000))
        assert json.loads(process.stdout.readline())["window"] == {"start_ms": 30_000, "end_ms": 40_000}
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "")
    assert json.loads(out)["links"]["b1→b2"]["windows"] == 3


def test_live_only_what_is_new(connection: Connection, tidings: Tidings) -> None:
    said = tidings("decisions", "--timeout", "1", "--json", "--bootstrap-servers", connection.bootstrap)
    assert said.json == {"links": {}}
