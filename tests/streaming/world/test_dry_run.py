"""A dry run tells what the service would: in time, over links, and with a reason for every silence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.model.outputs import Outcome
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.dry_run import DryRun, dry_run
from streaming.world.expectation import Agreement, compare, read_expected, write_expected
from streaming.world.records import broker, link, snapshot, subscription, topic
from streaming.world.script import BadLine, ControlLine, MessageLine, read_happenings
from streaming.world.silence import Silence, falsehoods
from streaming.world.simulator import Simulator
from tidings.notification import Notification
from tidings.predicate import parse
from tidings.topic import Timing
from topology.plan import Plan


def message(fields: dict[str, Any], key: str = "k", topic: str = "incident", **more: Any) -> dict[str, Any]:
    return {"topic": topic, "key": key, "fields": fields, **more}


def lines(*data: dict[str, Any] | str) -> bytes:
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in data).encode()


def run(records: list[dict[str, Any]], *data: dict[str, Any] | str, **more: Any) -> DryRun:
    happenings, wrong = read_happenings(lines(*data), Timing())
    assert wrong == []
    return dry_run(snapshot(*records), happenings, **more)


def told(found: DryRun) -> list[tuple[int, str, str, dict[str, Any]]]:
    return [(t.at_ms, t.notification.subscription, str(t.notification.reason), dict(t.notification.news)) for t in found.told]


def fates(found: DryRun) -> list[tuple[int, str, str, tuple[int, ...]]]:
    return [(each.line, str(each.outcome), each.reason, each.told_in) for each in found.fates]


class TestTheFile:
    def times(self, *data: dict[str, Any] | str) -> list[int]:
        happenings, wrong = read_happenings(lines(*data), Timing())
        assert wrong == []
        return [each.at_ms for each in happenings]

    def test_a_line_says_when_or_follows_the_one_before(self):
        assert self.times(message({}), message({}, at_ms=500), message({}), message({}, after_ms=20)) == [0, 500, 500, 520]

    def test_a_published_time_counts_if_nothing_else_is_said(self):
        assert self.times(message({}, published_ms=900), message({}, published_ms=5), message({}, published_ms=1, at_ms=7)) == [
            7,
            900,
            900,
        ]

    def test_comments_and_blank_lines_are_passed_over_and_lines_keep_their_numbers(self):
        happenings, _ = read_happenings(lines("# three", "", message({"a": 1})), Timing())
        assert [each.line for each in happenings] == [3]

    def test_a_record_with_a_kind_changes_the_control_data(self):
        happenings, _ = read_happenings(
            lines({**subscription("x"), "at_ms": 3}, {"kind": "topic", "name": "t", "fields": {"a": "max"}, "at_ms": 4}), Timing()
        )
        assert [(each.key, "at_ms" in (each.record or {})) for each in happenings if isinstance(each, ControlLine)] == [
            ("subscription/x", False),
            ("topic/t", False),
        ]

    def test_what_nobody_can_read_is_a_message_all_the_same(self):
        happenings, wrong = read_happenings(b'rubbish\n{"topic": \n[1]\n{"key": "k", "kind": "x"}', Timing())
        assert (len(happenings), wrong) == (4, [])
        assert all(isinstance(each, MessageLine) for each in happenings)

    def test_all_mistakes_are_named_with_their_lines(self):
        _, wrong = read_happenings(
            lines(
                message({}, at_ms="soon"),
                message({}, at_ms=1, after_ms=2),
                message({}, broker=3),
                subscription("x", where="a >"),
                message({}, after_ms=-1),
            ),
            Timing(),
        )
        assert [each.line for each in wrong] == [1, 2, 3, 4, 5]
        assert "position 3" in wrong[3].detail


class TestWhatIsTold:
    WITNESSES = (
        message({"what": "fire", "where": "kitchen"}),
        message({"what": "fire", "when": "08:14"}, after_ms=1000),
        message({"where": "kitchen", "when": "08:14"}),
    )

    def test_the_three_witnesses(self):
        found = run([topic(), subscription("ops")], *self.WITNESSES)
        assert told(found) == [
            (0, "ops", "first", {"what": "fire", "where": "kitchen"}),
            (1000, "ops", "news", {"when": "08:14"}),
        ]
        assert fates(found) == [(1, "told", "first", (1,)), (2, "told", "news", (2,)), (3, "redundant", "known", ())]

    def test_time_passes_until_nothing_is_open(self):
        found = run([topic(hold_ms=4000, window_ms=60_000), subscription("ops")], *self.WITNESSES)
        assert told(found) == [(4000, "ops", "first", {"what": "fire", "where": "kitchen", "when": "08:14"})]
        assert found.end_ms >= 60_000
        assert found.books["b1"].balanced
        assert found.books["b1"].total(Outcome.HELD) == 0

    def test_each_timer_fires_at_its_own_time(self):
        found = run(
            [topic(), subscription("slow", every_ms=5000), subscription("fast")],
            *(message({"n": n, f"f{n}": n}, at_ms=n * 700) for n in range(4)),
        )
        assert [(at_ms, name) for at_ms, name, *_ in told(found)] == [
            (0, "fast"),
            (0, "slow"),
            (700, "fast"),
            (1400, "fast"),
            (2100, "fast"),
            (5000, "slow"),
        ]

    def test_somebody_who_comes_later_is_told_once(self):
        found = run([topic(), subscription("ops")], *self.WITNESSES, {**subscription("late"), "after_ms": 10})
        assert told(found)[-1] == (1010, "late", "first", {"what": "fire", "where": "kitchen", "when": "08:14"})

    def test_what_was_due_before_a_change_is_told_by_what_held_before_it(self):
        found = run(
            [topic(hold_ms=300), subscription("ops")],
            message({"a": 1}),
            {**subscription("late"), "at_ms": 500},
            {"kind": "subscription", "name": "ops", "delete": True, "at_ms": 600},
        )
        assert told(found) == [(300, "ops", "first", {"a": 1}), (500, "late", "first", {"a": 1})]

    def test_what_is_put_aside_has_its_reason(self):
        found = run(
            [topic(window_ms=1000), subscription("ops")],
            message({"a": 1}),
            "rubbish",
            message({"b": 1}, at_ms=5000, published_ms=0),
            message({"b": 1}, broker="nowhere"),
        )
        assert [(line, outcome, reason) for line, outcome, reason, _ in fates(found)] == [
            (1, "told", "first"),
            (2, "dead_lettered", "unknown-format"),
            (3, "late", "window-closed"),
            (4, "dead_lettered", "unknown-broker"),
        ]
        assert all(each.detail for each in found.fates[1:])

    def test_a_message_is_told_in_what_carries_its_news(self):
        found = run([topic(), subscription("a", fields=["a"])], message({"a": 1}), message({"b": 1}), message({"a": 1, "b": 1}))
        assert fates(found) == [(1, "told", "first", (1,)), (2, "merged", "unwanted", ()), (3, "redundant", "known", ())]

    def test_limits_are_those_given(self):
        found = run([subscription("ops")], message({"a": 1}), limits=MessageLimits(message_bytes=10))
        assert [each.reason for each in found.fates] == ["too-large"]

    def test_measurements_are_told_one_by_one(self):
        found = run([topic(gather=False), subscription("ops")], message({"t": 1}, id="x"), message({"t": 1}, id="x"))
        assert fates(found) == [(1, "told", "first", (1,)), (2, "redundant", "repeat", ())]
        assert found.untold == ()


class TestPace:
    def test_heartbeats_are_left_out_and_named(self):
        found = run([topic(), subscription("ops", heartbeat_ms=1000)], message({"a": 1}), message({"b": 1}, after_ms=5000))
        assert [reason for _, _, reason, _ in told(found)] == ["first", "news"]
        assert found.beats == {"ops"}

    def test_what_did_not_hold_for_long_enough(self):
        records = [topic(fields={"state": "last"}), subscription("open", where="state = 'open'", settle_ms=1000)]
        data = (message({"state": "open"}), message({"state": "shut"}, after_ms=500), message({"state": "open"}, after_ms=500))
        assert told(run(records, *data)) == [(2000, "open", "first", {"state": "open"})]
        assert [each.why for each in run(records, *data[:2]).untold] == [Silence.WHERE_FALSE]
        short = [topic(fields={"state": "last"}, window_ms=800), records[1]]
        assert [each.why for each in run(short, data[0]).untold] == ["not-settled"]

    def test_what_waits_for_a_digest_is_told_in_it(self):
        records = [topic(window_ms=10_000), subscription("ops", at_most=1)]
        found = run(records, message({"a": 1}), message({"b": 2}, after_ms=10), message({"c": 3}, at_ms=20_000))
        assert [(at_ms, reason) for at_ms, _, reason, _ in told(found)] == [(0, "first"), (3_600_000, "digest")]
        assert fates(found) == [(1, "told", "first", (1,)), (2, "told", "digest", (2,)), (3, "told", "digest", (2,))]
        assert found.untold == ()
        written = write_expected(found.told, found.snapshot.subscriptions)
        assert json.loads(written.splitlines()[1])["digest"]
        expected, wrong = read_expected(written.encode())
        assert (wrong, [each.holds for each in compare(expected, found.told)]) == ([], [True])


CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]


class TestOverlays:
    def test_a_message_is_decided_about_where_it_is_gathered(self):
        found = run([*CHAIN, topic(), subscription("ops", broker="b3")], message({"a": 1}, broker="b1"), message({"a": 1}))
        assert fates(found) == [(1, "told", "first", (1,)), (2, "redundant", "known", ())]
        assert [each.broker for each in found.fates] == ["b2", "b2"]
        assert found.told[0].broker == "b3"

    def test_links_take_the_time_that_is_said(self):
        found = run([*CHAIN, topic(), subscription("ops", broker="b3")], message({"a": 1}, at_ms=5), hop_ms=100)
        assert [each.at_ms for each in found.told] == [205]

    def test_who_cannot_be_reached_is_named(self):
        found = run(
            [*CHAIN[:4], topic(), subscription("near"), subscription("far", broker="b3"), subscription("lost", broker="b9")],
            message({"a": 1}),
        )
        assert {each.subscription: each.why for each in found.untold} == {
            "far": Silence.CUT_OFF,
            "lost": Silence.NO_SUCH_BROKER,
        }

    FORBIDDING = (*CHAIN[:4], link("b2", "b3", forbid=["incident"]))

    @pytest.mark.parametrize("gatherer", ["centre", "none"])
    def test_who_is_not_told_because_a_link_forbids_the_topic_hears_so(self, gatherer):
        found = run(
            [*self.FORBIDDING, topic(gatherer=gatherer), subscription("near"), subscription("far", broker="b3")],
            message({"a": 1}),
            message({"b": 2}, broker="b3", after_ms=10),
        )
        assert {(each.subscription, each.why, each.fields, each.detail) for each in found.untold} == {
            ("far", Silence.CUT_OFF, ("a",), "no link that the topic may cross leads from 'b1' to 'b3'"),
            ("near", Silence.CUT_OFF, ("b",), "no link that the topic may cross leads from 'b3' to 'b1'"),
        }

    @pytest.mark.parametrize("gatherer", ["centre", "none"])
    def test_what_was_told_before_a_link_forbade_the_topic_is_told(self, gatherer):
        found = run(
            [*CHAIN, topic(gatherer=gatherer), subscription("near"), subscription("far", broker="b3")],
            message({"a": 1}),
            {**self.FORBIDDING[-1], "after_ms": 10},
        )
        assert [each.notification.subscription for each in found.told] == ["near", "far"]
        assert found.untold == ()

    def test_what_nobody_could_be_told_is_late_and_says_why(self):
        found = run([*self.FORBIDDING, topic(), subscription("far", broker="b3")], message({"a": 1}))
        assert fates(found) == [(1, "late", "cut-off", ())]
        assert found.fates[0].detail == "no link led to the subscribers at b3 before the event ended"

    @pytest.mark.parametrize("gather", [True, False])
    def test_who_asks_for_aggregates_and_cannot_be_reached_is_named_once(self, gather):
        counting = subscription("w", broker="b3", where="a = 1", window={"size_ms": 1000, "of": {"n": "count()"}})
        records = [*self.FORBIDDING, topic(gather=gather, window_ms=2000), counting]
        data = [message({"a": 1}, key=f"k{n}", at_ms=n) for n in range(1, 4)]
        assert [(each.subscription, each.why, each.key) for each in run(records, *data).untold] == [("w", Silence.CUT_OFF, None)]
        assert run(records, message({"a": 2})).untold == ()
        near = run([*records, {**counting, "name": "near", "broker": "b1"}], *data, message({"a": 9}, at_ms=9000))
        assert [each.subscription for each in near.untold] == ["w"]

    @pytest.mark.parametrize("gatherer", ["centre", "none"])
    def test_nobody_who_was_told_is_called_untold(self, gatherer):
        found = run(
            [*CHAIN, topic(gatherer=gatherer), subscription("a"), subscription("c", broker="b3")],
            message({"a": 1}),
            message({"b": 1}, broker="b3", after_ms=10),
        )
        assert len(found.told) == 4
        assert found.untold == ()

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 9000),
                st.sampled_from(["b1", "b2", "b3"]),
                st.sampled_from("xy"),
                st.sampled_from("abc"),
                st.integers(0, 1),
            ),
            max_size=12,
        ),
        st.sampled_from([{}, {"hold_ms": 500}, {"early": True}, {"gatherer": "none"}, {"window_ms": 800}, {"remember_ms": 900}]),
        st.booleans(),
    )
    def test_the_simulator_tells_the_same(self, stream, more, linked):
        """With links, and alone, where marks are few: each timer fires at its own time all the same."""
        home = "b3" if linked else "b1"
        records = [topic(**more), subscription("ops", broker=home), subscription("some", where="a = 1", every_ms=300)]
        records += CHAIN if linked else []
        ordered = sorted((at_ms, where if linked else "b1", key, f, v) for at_ms, where, key, f, v in stream)
        data = [message({f: v}, key, at_ms=at_ms, broker=where) for at_ms, where, key, f, v in ordered]
        found = run(records, *data, hop_ms=1)
        simulator = Simulator(Plan(snapshot(*records)), lambda *_: 1)
        for (at_ms, where, *_), each in zip(ordered, data, strict=True):
            simulator.publish(at_ms, where, decode_message(json.dumps(each).encode(), MessageLimits()))
        simulator.run()
        expected = [(tell.at_ms, tell.notification) for _, tell in simulator.told]
        assert sorted(map(said, expected)) == sorted(said((each.at_ms, each.notification)) for each in found.told)
        assert {name: books.to_dict()["reasons"] for name, books in found.books.items() if books.received} == {
            name: books.to_dict()["reasons"] for name, books in simulator.books.items() if books.received
        }


def said(told: tuple[int, Notification]) -> tuple[Any, ...]:
    at_ms, note = told
    return at_ms, note.subscription, note.key, note.revision, str(note.reason), sorted(note.news.items()), note.reports


class TestNotTold:
    def why(self, *records: dict[str, Any], data: tuple[Any, ...] = (message({"severity": 2, "what": "fire"}),)) -> list[Any]:
        return [(each.subscription, each.why) for each in run([topic(), *records], *data).untold]

    def test_the_reasons(self):
        found = run(
            [
                topic(),
                subscription("false", where="severity >= 3 and what = 'fire'"),
                subscription("patient", where="injured > 0", missing="patient"),
                subscription("fields", fields=["where"]),
                subscription("elsewhere", topic="gossip"),
                subscription("told"),
            ],
            message({"severity": 2, "what": "fire"}),
        )
        assert {each.subscription: (each.why, each.detail) for each in found.untold} == {
            "false": (Silence.WHERE_FALSE, "severity >= 3 is false: severity is 2"),
            "patient": (Silence.WAITS_FOR_FIELD, "it is patient, and nobody stated injured"),
            "fields": (Silence.FIELDS_NOT_WANTED, "it wants where; only severity, what is stated"),
            "elsewhere": (Silence.NOTHING_PUBLISHED, "no message is about the topic 'gossip'"),
        }

    def test_each_event_has_a_reason_of_its_own(self):
        found = run([topic(), subscription("one", where="key = 'k1'")], message({"a": 1}, "k1"), message({"a": 1}, "k2"))
        assert [(each.key, each.why) for each in found.untold] == [("k2", Silence.WHERE_FALSE)]

    def test_what_was_told_before_it_turned_false_is_told_in_part(self):
        records = [topic(fields={"state": "last"}), subscription("open", where="state = 'open'")]
        found = run(records, message({"state": "open"}), message({"state": "shut", "by": "x"}, after_ms=10))
        (untold,) = found.untold
        assert (untold.partly, untold.fields, untold.why) == (True, ("by", "state"), Silence.WHERE_FALSE)

    def test_all_messages_were_put_aside(self):
        data = (message({"a": 1}, at_ms=10**6, published_ms=0),)
        assert self.why(subscription("ops"), data=data) == [("ops", Silence.ALL_PUT_ASIDE)]

    def test_who_came_after_the_event_or_left_before_it_was_due(self):
        found = run(
            [topic(hold_ms=100, window_ms=1000), subscription("gone")],
            message({"a": 1}),
            {"kind": "subscription", "name": "gone", "delete": True, "at_ms": 50},
            {**subscription("later"), "at_ms": 5000},
        )
        assert {each.subscription: each.why for each in found.untold} == {
            "gone": Silence.DELETED,
            "later": Silence.CAME_LATER,
        }

    def test_only_what_is_false_is_blamed(self):
        facts = {"a": 1, "b": "x", "tags": ("p",)}
        assert falsehoods(parse("a = 2 or (b = 'x' and exists(c))"), facts) == [
            "a = 2 is false: a is 1",
            "exists(c) is false: c is not stated",
        ]
        assert falsehoods(parse("not tags contains 'p'"), facts) == ["not tags contains 'p' is false: tags is [\"p\"]"]


class TestExpectations:
    RECORDS = (topic(), subscription("ops"), subscription("press", where="severity >= 3"))
    DATA = (message({"what": "fire"}), message({"where": "kitchen"}, after_ms=10), message({"severity": 1}, after_ms=10))

    def verdicts(self, *patterns: dict[str, Any] | str) -> dict[str, list[str]]:
        expected, wrong = read_expected(lines(*patterns))
        assert wrong == []
        found = compare(expected, run(list(self.RECORDS), *self.DATA).told)
        return {each.name: [str(step.verdict) for step in each.steps] for each in found}

    def test_what_a_pattern_does_not_say_may_be_anything(self):
        ops = {"subscription": "ops"}
        assert self.verdicts({**ops, "reason": "first"}, {**ops, "news": {"where": "kitchen"}, "at_ms": 10}, ops) == {
            "ops": ["same", "same", "same"],
            "press": ["extra", "extra"],
        }

    def test_patterns_are_held_to_their_order(self):
        ops = {"subscription": "ops"}
        news = [{**ops, "news": {"where": "kitchen"}}, {**ops, "news": {"what": "fire"}}, {**ops, "reason": "news"}]
        assert sorted(self.verdicts(*news, {"subscription": "press", "count": 2})["ops"]) == ["extra", "missing", "same", "same"]

    def test_one_that_is_alike_is_shown_beside_what_was_expected(self):
        ops = {"subscription": "ops"}
        expected, _ = read_expected(lines({**ops, "count": 2}, {**ops, "reason": "news", "news": {"severity": 2}}))
        (ops_steps,) = [each.steps for each in compare(expected, run(list(self.RECORDS), *self.DATA).told) if each.name == "ops"]
        assert [str(step.verdict) for step in ops_steps] == ["same", "same", "other"]
        assert ops_steps[-1].differs == ("news",)

    def test_counts(self):
        assert self.verdicts({"subscription": "ops", "count": 3}, {"subscription": "press", "count": "any"}) == {
            "ops": ["same"] * 3,
            "press": ["same"] * 2,
        }
        assert self.verdicts({"subscription": "ops", "count": "any"}, {"subscription": "press", "count": 0})["press"] == [
            "extra",
            "extra",
        ]
        never = {"subscription": "ops", "news": {"where": "kitchen"}, "count": 0}
        assert self.verdicts({"subscription": "ops", "count": "any"}, never)["ops"] == ["same", "extra", "same"]

    def test_a_subscriber_hears_all_its_subscriptions(self):
        expected, _ = read_expected(lines({"subscriber": "ops", "count": 2}, {"subscription": "two", "count": 1}))
        records = [topic(), subscription("one", subscriber="ops"), subscription("two", subscriber="ops")]
        found = compare(expected, run(records, message({"a": 1}), message({"b": 1})).told)
        assert {(each.who, each.name): [str(step.verdict) for step in each.steps] for each in found} == {
            ("subscriber", "ops"): ["same", "same"],
            ("subscription", "two"): ["same", "extra"],
        }

    def test_facts_are_compared_as_facts(self):
        found = run([topic(), subscription("ops")], message({"n": 3, "yes": True, "tags": ["a"]}))
        for news, holds in [
            ({"n": 3.0, "yes": True, "tags": ["a"]}, True),
            ({"n": 3, "yes": 1, "tags": ["a"]}, False),
            ({"n": 3, "yes": True, "tags": ["a", "b"]}, False),
            ({"n": 3, "yes": True}, False),
        ]:
            expected, _ = read_expected(lines({"subscription": "ops", "news": news}))
            assert [each.holds for each in compare(expected, found.told)] == [holds]

    def test_all_mistakes_of_the_file_are_named(self):
        _, wrong = read_expected(
            lines(
                "{",
                "3",
                {"reason": "first"},
                {"subscription": "x", "raeson": "first"},
                {"subscription": "x", "count": -1},
                {"subscription": "x", "count": "some"},
            )
        )
        assert [each.line for each in wrong] == [1, 2, 3, 4, 5, 6]
        assert isinstance(wrong[0], BadLine)
        assert "'raeson'" in wrong[3].detail

    @given(
        st.lists(st.tuples(st.sampled_from("kl"), st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 400)), max_size=15),
        st.data(),
    )
    def test_what_is_written_holds_and_any_change_of_it_does_not(self, stream, data):
        records = [
            topic(hold_ms=100),
            subscription("ops"),
            subscription("a", where="a = 1", every_ms=700),
            subscription("none", topic="x"),
        ]
        found = run(records, *(message({f: v}, key, after_ms=ms) for key, f, v, ms in stream))
        text = write_expected(found.told, found.snapshot.subscriptions)
        expected, wrong = read_expected(text.encode())
        assert wrong == []
        assert all(each.holds for each in compare(expected, found.told))
        if not found.told:
            return
        which = data.draw(st.integers(0, len(found.told) - 1))
        without = [each for each in found.told if each.number != which + 1]
        steps = [step.verdict for each in compare(expected, without) for step in each.steps]
        assert steps.count(Agreement.MISSING) == 1
        assert steps.count(Agreement.SAME) == len(without)
        fewer = [each for index, each in enumerate(expected) if index != which]
        steps = [step.verdict for each in compare(fewer, found.told) for step in each.steps]
        assert steps.count(Agreement.EXTRA) == 1
        assert steps.count(Agreement.SAME) == len(fewer) - sum(each.count == 0 for each in fewer)
