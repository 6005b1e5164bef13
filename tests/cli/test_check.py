"""`tidings check`: all that is wrong with control records, and who would be told what. Nothing here needs a service."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.world.checking import Checked, check_text, check_whole
from streaming.world.records import broker, link, subscription, topic
from testing.commands import Said, Tidings
from tidings.control import Snapshot
from tidings.control.files import read_text
from tidings.errors import BadControl

CONTROL = [
    topic(fields={"severity": "max"}),
    subscription("ops"),
    subscription("press", where="severity >= 3", missing="patient"),
]
WITNESSES = [
    {"topic": "incident", "key": "5th and Main", "fields": {"what": "fire", "where": "kitchen"}, "source": "witness-a"},
    {
        "topic": "incident",
        "key": "5th and Main",
        "fields": {"what": "fire", "when": "08:14"},
        "source": "witness-b",
        "after_ms": 1000,
    },
    {"topic": "incident", "key": "5th and Main", "fields": {"where": "kitchen", "when": "08:14"}, "source": "witness-c"},
]
EXPECTED = [
    {"subscription": "ops", "reason": "first", "news": {"what": "fire", "where": "kitchen"}},
    {"subscription": "ops", "reason": "news", "news": {"when": "08:14"}},
]


@pytest.fixture
def check(tidings: Tidings) -> Tidings:
    """`tidings check` where the files of the example lie."""
    write("control.jsonl", CONTROL)
    write("witnesses.jsonl", WITNESSES)
    write("expected.jsonl", EXPECTED)
    return partial(tidings, "check")


def write(name: str, data: list[Any]) -> None:
    Path(name).write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in data))


class TestControlRecords:
    def test_good_ones(self, check: Tidings) -> None:
        said = check("control.jsonl")
        assert (said.code, said.out) == (0, "✓ control.jsonl: 3 records, no problems\n")

    def test_every_problem_is_named_with_its_line(self, check: Tidings) -> None:
        bad = [
            topic(window_ms=60, hold_ms=100, colour=3),
            subscription("ops", where="a > and b", every_ms=-1, whre="x"),
            '{"kind": "subscription"',
            link("b1", "b7"),
            "3",
            {"kind": "planet", "name": "x"},
        ]
        write("bad.jsonl", bad)
        said = check("bad.jsonl", "--json")
        assert said.code == 2
        assert [(each["where"], each["about"]) for each in said.json["problems"]] == [
            ("bad.jsonl:1", "topic/incident"),
            ("bad.jsonl:1", "topic/incident"),
            ("bad.jsonl:2", "subscription/ops"),
            ("bad.jsonl:2", "subscription/ops"),
            ("bad.jsonl:2", "subscription/ops"),
            ("bad.jsonl:3", ""),
            ("bad.jsonl:5", ""),
            ("bad.jsonl:6", "planet/x"),
            ("", "the overlay"),
        ]
        details = " ".join(each["detail"] for each in said.json["problems"])
        for word in ("'colour'", "'whre'", "position 4", "'every_ms'", "hold_ms <= remember_ms", "not JSON", "'b7'"):
            assert word in details

    def test_a_broken_where_is_pointed_at(self, check: Tidings) -> None:
        write("bad.jsonl", [subscription("ops", where="a > and b")])
        lines = check("bad.jsonl").out.splitlines()
        assert (lines[1].strip(), lines[2].index("^") - lines[1].index("a")) == ("a > and b", 4)

    def test_a_required_property_that_is_wrong_hides_nothing(self, check: Tidings) -> None:
        write("bad.jsonl", [subscription("ops", subscriber=3, topic="", colour=1)])
        details = [each["detail"] for each in check("bad.jsonl", "--json").json["problems"]]
        assert [detail.split("'")[1] for detail in details] == ["subscriber", "topic", "colour"]

    def test_what_may_be_meant_otherwise_is_only_remarked(self, check: Tidings) -> None:
        doubtful = [topic(), subscription("a", topic="incidnt"), subscription("b", broker="b9"), subscription("b")]
        write("doubtful.jsonl", [*doubtful, broker("b1"), broker("b2"), broker("b3"), link("b1", "b2")])
        said = check("doubtful.jsonl", "--json")
        assert (said.code, said.json["problems"]) == (0, [])
        assert [(each["where"], each["about"]) for each in said.json["remarks"]] == [
            ("doubtful.jsonl:4", "subscription/b"),
            ("", "the overlay"),
            ("doubtful.jsonl:2", "subscription/a"),
        ]
        strict = check("doubtful.jsonl", "--json", "--strict")
        assert (strict.code, len(strict.json["problems"]), strict.json["remarks"]) == (2, 3, [])

    def test_a_topic_that_links_keep_from_a_subscriber_is_remarked(self, check: Tidings) -> None:
        overlay = [broker("b1"), broker("b2"), link("b1", "b2", forbid=["incident"])]
        write("forbidding.jsonl", [*overlay, topic(), subscription("far", broker="b2")])
        said = check("forbidding.jsonl", "--json")
        assert (said.code, said.json["problems"]) == (0, [])
        assert [(each["about"], each["detail"]) for each in said.json["remarks"]] == [
            (
                "the overlay",
                "the topic 'incident' is forbidden on links and falls into 2 parts: b1; b2 "
                "(who subscribes at b2 is not told what is published in another part)",
            )
        ]
        assert "the topic 'incident' is forbidden on links" in check("forbidding.jsonl").out
        assert check("forbidding.jsonl", "--strict").code == 2
        write("forbidding.jsonl", [*overlay, topic(), subscription("near")])
        assert check("forbidding.jsonl", "--json").json["remarks"] != [], "what is published at b2 does not reach it"
        write("forbidding.jsonl", [*overlay, topic()])
        assert check("forbidding.jsonl", "--json").json["remarks"] == []

    def test_several_files_are_taken_together(self, check: Tidings) -> None:
        write("overlay.jsonl", [broker("b1"), broker("b2")])
        write("links.jsonl", [link("b1", "b2")])
        assert check("overlay.jsonl", "links.jsonl").code == 0
        assert check("links.jsonl").code == 2

    def test_an_array_and_the_pipe(self, check: Tidings) -> None:
        assert check("-", "--json", stdin=json.dumps(CONTROL, indent=1)).json["records"] == 3
        assert check("-", stdin=json.dumps(CONTROL)[:-1]).code == 2
        assert check("-", stdin=json.dumps(CONTROL) + "{}").code == 2

    RECORD = st.one_of(
        st.sampled_from(
            [*CONTROL, broker("b1"), link("b1", "b2"), {"kind": "topic", "name": "x", "delete": True}, 3, {}, [], "x"]
        ),
        st.fixed_dictionaries(
            {"kind": st.sampled_from(["topic", "subscription", "link", "x"]), "name": st.sampled_from(["n", "", 1])},
            optional={
                "topic": st.sampled_from(["t", "", 2]),
                "subscriber": st.sampled_from(["s", "s/", None]),
                "where": st.sampled_from(["a = 1", "a =", 4]),
                "window_ms": st.sampled_from([0, 5, "x"]),
                "hold_ms": st.sampled_from([0, 9]),
                "deliver": st.sampled_from(["control", "ok"]),
                "fields": st.sampled_from([{"a": "max"}, {"a": "most"}, ["a"]]),
                "colour": st.just(1),
            },
        ),
    )

    @given(st.lists(RECORD, max_size=5), st.sampled_from(["lines", "array", "cut"]))
    def test_it_finds_fault_exactly_where_applying_would(self, data: list[Any], how: str) -> None:
        text = json.dumps(data) if how == "array" else "\n".join(json.dumps(each) for each in data)
        text = text[:-3] if how == "cut" else text
        checked = check_text(text, "f", Checked(Snapshot()))
        if not checked.problems:
            assert checked.snapshot.version == len(read_text(text, "f"))
            check_whole(checked)
            return
        with pytest.raises(BadControl) as raised:
            read_text(text, "f")
        first, said = checked.problems[0].where, str(raised.value)
        assert f"({first})" in said or said.startswith(f"control record {first!r}")


class TestDryRun:
    def test_who_is_told_what_and_why(self, check: Tidings) -> None:
        said = check("control.jsonl", "--messages", "witnesses.jsonl")
        assert said.code == 0
        for words in (
            "witness-a says what=fire, where=kitchen  [b1]  adds what, where, told in #1",
            "1.000 s  #2 → ops  news  incident · 5th and Main  when=08:14",
            "redundant, known: nothing new",
            "press  incident · 5th and Main  waits-for-field: it is patient, and nobody stated severity",
        ):
            assert words in said.out

    def test_the_same_for_machines(self, check: Tidings) -> None:
        said = check("control.jsonl", "--messages", "witnesses.jsonl", "--json").json
        assert [(each["at_ms"], each["subscription"], each["reason"], each["news"]) for each in said["told"]] == [
            (0, "ops", "first", {"what": "fire", "where": "kitchen"}),
            (1000, "ops", "news", {"when": "08:14"}),
        ]
        assert [(each["line"], each["outcome"], each["told_in"]) for each in said["messages"]] == [
            (1, "told", [1]),
            (2, "told", [2]),
            (3, "redundant", []),
        ]
        assert [(each["subscription"], each["why"]) for each in said["not_told"]] == [("press", "waits-for-field")]
        assert (said["books"]["received"], said["books"]["balanced"]) == (3, True)

    def test_messages_from_the_pipe(self, check: Tidings) -> None:
        said = check("control.jsonl", "--messages", "-", "--json", stdin=json.dumps(WITNESSES[0]))
        assert len(said.json["told"]) == 1
        assert check("-", "--messages", "-").code == 2

    def test_settings_count(self, check: Tidings) -> None:
        Path("tidings.toml").write_text("[defaults]\nhold_ms = 2000\n")
        said = check("control.jsonl", "--messages", "witnesses.jsonl", "--settings", "tidings.toml", "--json").json
        assert [each["at_ms"] for each in said["told"]] == [2000]

    def test_wrong_messages_and_a_missing_file_exit_2(self, check: Tidings) -> None:
        write("bad.jsonl", [{**WITNESSES[0], "at_ms": "soon"}])
        said = check("control.jsonl", "--messages", "bad.jsonl", "--json")
        assert (said.code, said.json["problems"][0]["where"], "told" in said.json) == (2, "bad.jsonl:1", False)
        said = check("control.jsonl", "--messages", "nowhere.jsonl")
        assert (said.code, said.out) == (2, "")
        assert "nowhere.jsonl cannot be read" in said.err

    def test_a_wrong_config_is_not_run(self, check: Tidings) -> None:
        write("bad.jsonl", [topic(colour=1)])
        said = check("bad.jsonl", "--messages", "witnesses.jsonl", "--expect", "expected.jsonl", "--json")
        assert (said.code, "told" in said.json, "holds" in said.json) == (2, False, False)

    def test_strangers_cannot_move_the_cursor(self, check: Tidings) -> None:
        write("evil.jsonl", [{**WITNESSES[0], "key": "a\x1b[2J", "source": "\x1b[31m[bold]"}])
        said = check("control.jsonl", "--messages", "evil.jsonl")
        assert "\x1b" not in said.out
        assert "[bold]" in said.out


class TestExpectation:
    def expect(self, check: Tidings, *patterns: Any) -> Said:
        write("patterns.jsonl", list(patterns))
        return check("control.jsonl", "--messages", "witnesses.jsonl", "--expect", "patterns.jsonl")

    def test_it_holds(self, check: Tidings) -> None:
        said = self.expect(check, *EXPECTED, {"subscription": "press", "count": 0})
        assert said.code == 0
        assert "✓ the expectation holds: 2 notifications" in said.out

    def test_it_differs(self, check: Tidings) -> None:
        other = {**EXPECTED[1], "news": {"when": "08:15"}}
        said = self.expect(check, EXPECTED[0], other, {"subscription": "press"})
        assert said.code == 1
        shown = said.out[said.out.index("Expectation") :].splitlines()
        assert [line.split()[0] for line in shown if line.startswith(("    -", "    +"))] == ["-", "+", "-"]
        assert 'line 2: reason news, news {"when": "08:15"}' in said.out
        assert "differs in news" in said.out
        assert shown[-1] == "✗ the expectation differs: 1 missing, 1 other; 1 as expected"

    def test_what_nobody_expected_differs(self, check: Tidings) -> None:
        said = check("control.jsonl", "--messages", "witnesses.jsonl", "--expect", "expected.jsonl", "--json")
        assert (said.code, said.json["holds"]) == (0, True)
        write("more.jsonl", [*CONTROL, subscription("new")])
        said = check("more.jsonl", "--messages", "witnesses.jsonl", "--expect", "expected.jsonl", "--json")
        assert (said.code, said.json["holds"]) == (1, False)
        assert [(each["subscription"], each["verdict"]) for each in said.json["differences"]] == [("new", "extra")] * 2

    def test_what_is_written_holds(self, check: Tidings) -> None:
        assert check("control.jsonl", "--messages", "witnesses.jsonl", "--write-expect", "written.jsonl").code == 0
        written = [json.loads(line) for line in Path("written.jsonl").read_text().splitlines()]
        assert written[0] == {"at_ms": 0, "topic": "incident", "key": "5th and Main", **EXPECTED[0]}
        assert written[-1] == {"subscription": "press", "count": 0}
        assert check("control.jsonl", "--messages", "witnesses.jsonl", "--expect", "written.jsonl").code == 0

    def test_a_wrong_pattern_exits_2(self, check: Tidings) -> None:
        said = self.expect(check, {"subscription": "ops", "raeson": "first"})
        assert said.code == 2
        assert "patterns.jsonl:1  unknown property 'raeson'" in said.out

    def test_it_needs_messages(self, check: Tidings) -> None:
        said = check("control.jsonl", "--expect", "expected.jsonl")
        assert said.code == 2
        assert "--messages" in said.err


def test_it_needs_neither_spark_nor_kafka(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(json.dumps(CONTROL))
    (tmp_path / "m").write_text(json.dumps(WITNESSES[0]))
    code = (
        "import sys\nfrom cli.main import run\n"
        "try:\n    run(['check', 'c', '--messages', 'm'])\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "print([m for m in ('pyspark', 'pandas', 'confluent_kafka') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
