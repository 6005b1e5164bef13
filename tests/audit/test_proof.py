"""What was written, laid beside what follows from the log: logs written by hand, without Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as record_with

from audit.comparison import CompareScope, Finding
from audit.places import BadPlace, since_of
from audit.proof import Proof, conclude
from audit.replay import Log
from audit.written import Written
from clients import control
from streaming.model.outputs import Outcome
from streaming.wire.notification import decode_notification, encode_notification
from streaming.wire.record import Record
from streaming.world.records import subscription
from testing.logs import RULES, WINDOW_MS, HandmadeLog, as_written, decided
from tidings.notification import Encoding
from tidings.topic import Timing


def prove(log: Log, written: Written, scope: CompareScope | None = None) -> Proof:
    return conclude(log, decided(log), written, scope=scope or CompareScope(), rules=RULES, timing=Timing())


def busy() -> HandmadeLog:
    script = HandmadeLog()
    script.tick()
    script.publish({"a": 1, "b": "x"})
    script.publish({"a": 1})
    script.tick()
    script.publish({"c": 2}, "other")
    script.raw(b"rubbish")
    script.raw(None)
    script.publish({"b": "late"}, published_ms=1)
    script.tick(WINDOW_MS)
    script.publish({"a": 1})
    script.tick(3 * WINDOW_MS)
    script.tick()
    return script


def found(proof: Proof) -> list[tuple[str, str]]:
    return [(each.what, str(each.finding)) for each in proof.differences]


class TestTheSame:
    def test_all_is_counted(self):
        log = busy().log()
        proof = prove(log, as_written(log))
        assert (proof.same, proof.books, proof.messages) == (True, "same", 7)
        assert (proof.notifications.expected, proof.notifications.same) == (6, 6)
        assert (proof.late.same, proof.dead_letters.same, proof.undecided) == (1, 2, 0)

    def test_repeats_with_equal_bytes_are_counted_and_are_no_difference(self):
        log = busy().log()
        written = as_written(log)
        twice = replace(written, delivered=(*written.delivered, *written.delivered[:2]), late=written.late * 2)
        proof = prove(log, twice)
        assert (proof.same, proof.notifications.repeated, proof.late.repeated) == (True, 2, 1)

    def test_what_strangers_write_there_is_only_counted(self):
        log = busy().log()
        written = as_written(log)
        bad_control = Record("x", 0, 9, 1_000_001, b"", b"{}", (("origin", b"control"), ("reason", b"bad-control")))
        foreign = Record("notify.ops", 0, 9, 1_000_001, b"", b"hello")
        proof = prove(
            log, replace(written, delivered=(*written.delivered, foreign), dead_letters=(*written.dead_letters, bad_control))
        )
        assert (proof.same, proof.foreign) == (True, 1)


class TestDifferences:
    def test_a_notification_that_is_missing(self):
        log = busy().log()
        written = as_written(log)
        proof = prove(log, replace(written, delivered=written.delivered[1:]))
        assert (found(proof), proof.notifications.missing) == ([("notification", "missing")], 1)
        assert "ops, incident · k, first, revision 1: a=1, b='x'" in proof.differences[0].text

    def test_one_that_was_told_beside(self):
        log = busy().log()
        written = as_written(log)
        one = written.delivered[0]
        note = replace(decode_notification(one.value or b""), id="stranger")
        extra = record_with(one, value=encode_notification(note, Encoding.JSON))
        assert found(prove(log, replace(written, delivered=(*written.delivered, extra)))) == [("notification", "beside")]

    @pytest.mark.parametrize("beside_the_right_one", [False, True])
    def test_one_with_other_bytes(self, beside_the_right_one):
        log = busy().log()
        written = as_written(log)
        one = written.delivered[0]
        note = replace(decode_notification(one.value or b""), reports=9)
        wrong = record_with(one, value=encode_notification(note, Encoding.JSON))
        right = (one,) if beside_the_right_one else ()
        proof = prove(log, replace(written, delivered=(*right, wrong, *written.delivered[1:])))
        assert (found(proof), proof.notifications.other) == ([("notification", "other")], 1)

    def test_on_another_kafka_topic_it_is_missing_and_beside(self):
        log = busy().log()
        written = as_written(log)
        moved = record_with(written.delivered[0], kafka_topic="notify.press")
        assert sorted(found(prove(log, replace(written, delivered=(moved, *written.delivered[1:]))))) == [
            ("notification", "beside"),
            ("notification", "missing"),
        ]

    def test_what_was_put_aside(self):
        log = busy().log()
        written = as_written(log)
        (late,), (first, second) = written.late, written.dead_letters
        assert found(prove(log, replace(written, late=()))) == [("late", "missing")]
        assert found(prove(log, replace(written, dead_letters=(first, record_with(second, value=b"touched"))))) == [
            ("dead-letter", "other")
        ]
        elsewhere = record_with(late, headers=tuple((n, b"99" if n == "offset" else v) for n, v in late.headers))
        assert found(prove(log, replace(written, late=(late, elsewhere)))) == [("late", "beside")]

    def test_the_books(self):
        log = busy().log()
        written = as_written(log)
        books = written.books["b1"]
        books.enter(Outcome.REDUNDANT, "known", 1)
        books.enter(Outcome.MERGED, "joined", -1)
        proof = prove(log, written)
        assert (proof.books, {each.what for each in proof.differences}) == ("differ", {"books"})

    def test_a_service_that_is_behind_says_so(self):
        log = busy().log()
        written = as_written(log)
        written.books["b1"].received -= 2
        (difference,) = prove(log, written).differences
        assert (difference.finding, difference.text.split()[0]) == (Finding.MISSING, "2")

    def test_more_messages_than_the_log_had_are_no_difference(self):
        log = busy().log()
        written = as_written(log)
        written.books["b1"].received += 1
        assert prove(log, written).same


class TestNotYet:
    def test_what_was_written_after_the_log_was_read_follows_from_something_else(self):
        script = busy()
        log = script.log()
        written = as_written(log)
        one = written.delivered[0]
        note = replace(decode_notification(one.value or b""), id="later")
        later = record_with(one, value=encode_notification(note, Encoding.JSON), append_ms=script.now_ms + 1)
        assert prove(log, replace(written, delivered=(*written.delivered, later))).same

    def test_what_came_after_the_last_tick_may_not_be_told_yet(self):
        script = busy()
        script.now_ms += 500
        script.publish({"a": 1}, "new")
        log = script.log()
        written = as_written(log)
        proof = prove(log, replace(written, delivered=written.delivered[:-2]))
        assert (proof.same, proof.notifications.undecided) == (True, 2)


class TestFrom:
    def test_only_what_was_decided_since_then_is_compared(self):
        script = busy()
        log = script.log()
        written = as_written(log)
        since = CompareScope(since_ms=1_000_000 + 3 * 1000)
        whole, part = prove(log, written), prove(log, written, since)
        assert part.same
        assert 0 < part.notifications.expected < whole.notifications.expected
        assert part.books.startswith("not compared")
        assert prove(log, replace(written, delivered=written.delivered[1:]), since).same
        assert found(prove(log, replace(written, delivered=written.delivered[:-1]), since)) == [("notification", "missing")]

    def test_only_what_is_about_a_topic_and_key(self):
        log = busy().log()
        written = as_written(log)
        other = prove(log, written, CompareScope(topic="incident", key="other"))
        assert (other.messages, other.notifications.expected, other.late.expected, other.dead_letters.expected) == (1, 2, 0, 0)
        assert prove(log, replace(written, delivered=()), CompareScope(key="nobody")).same
        assert not prove(log, replace(written, delivered=()), CompareScope(key="other")).same
        assert prove(log, written, CompareScope(topic="gossip")).messages == 0

    def test_places(self):
        nobody: Any = None
        assert since_of(nobody, "earliest", 0) is None
        assert since_of(nobody, "15m", 10**6) == 100_000
        assert since_of(nobody, "1731722400000", 0) == 1731722400000
        assert since_of(nobody, "2024-11-16T02:00:00+00:00", 0) == 1731722400000
        for text in ("soon", "15x", "", "2024-99-99"):
            with pytest.raises(BadPlace):
                since_of(nobody, text, 0)


class TestALogThatForgets:
    """Kafka deletes old records. What then cannot be decided must not look like a difference."""

    def busy_key(self) -> HandmadeLog:
        """One key in every window, another that is silent for long."""
        script = HandmadeLog()
        script.tick()
        for n in range(40):
            script.publish({"n": n, "a": 1}, "busy")
            if n in (0, 1, 30):
                script.publish({"n": n}, "rare")
            script.tick(WINDOW_MS // 4 + 1)
        script.tick(3 * WINDOW_MS)
        return script

    @pytest.mark.parametrize("lost", [2, 3, 5, 17, 40])
    def test_no_false_differences(self, lost):
        script = self.busy_key()
        written = as_written(script.log())
        proof = prove(script.log(lost), written)
        assert proof.differences == ()
        assert proof.undecided > 0
        assert proof.books.startswith("not compared")
        assert proof.reach.since_ms is not None

    def test_a_key_that_was_silent_is_decided(self):
        script = self.busy_key()
        written = as_written(script.log())
        rare = prove(script.log(5), written, CompareScope(key="rare"))
        assert rare.notifications.same == 2  # what is not known yet counts as true
        without = [r for r in written.delivered if decode_notification(r.value or b"").key == "busy"]
        proof = prove(script.log(5), replace(written, delivered=tuple(without)), CompareScope(key="rare"))
        assert found(proof) == [("notification", "missing")] * 2

    def test_a_key_that_never_was_is_not(self):
        script = self.busy_key()
        proof = prove(script.log(5), replace(as_written(script.log()), delivered=()), CompareScope(key="busy"))
        assert (proof.same, proof.compared) == (True, 0)
        assert proof.undecided > 0

    def test_a_straggler_of_an_event_that_is_forgotten_is_not_taken_for_a_new_one(self):
        """Its event's grave would say that it is late; only after two windows no grave can."""
        script = HandmadeLog()
        script.tick()
        script.publish({"a": 1})
        script.tick(1)
        script.tick(WINDOW_MS + 1)
        script.publish({"b": 2}, published_ms=script.now_ms - WINDOW_MS // 2)
        script.tick(3 * WINDOW_MS)
        written = as_written(script.log())
        assert len(written.late) == 1
        proof = prove(script.log(lost=2), written)
        assert (proof.differences, proof.compared) == ((), 0)

    def test_a_cap_is_remembered_for_longer(self):
        script = busy()
        hours_ms = 2 * 3_600_000
        for capped, more_ms in (("other", 0), ("incident", hours_ms)):
            script.records.append(subscription("capped", topic=capped, at_most=1))
            script.tick()
            assert prove(script.log(2), Written()).reach.quiet("incident") == 2 * WINDOW_MS + more_ms
        assert prove(script.log(2), Written()).reach.quiet("other") == 2 * Timing().window_ms + hours_ms

    def test_nothing_left(self):
        script = self.busy_key()
        proof = prove(script.log(len(script.rows)), as_written(script.log()))
        assert (proof.same, proof.compared) == (True, 0)

    def test_results_that_kafka_deleted_are_not_missing(self):
        log = busy().log()
        written = as_written(log)
        left = written.delivered[-1]
        gone = dict.fromkeys(("notify.ops", "notify.press"), left.append_ms)
        proof = prove(log, replace(written, delivered=(left,), gone_ms=gone))
        assert (proof.same, proof.notifications.same) == (True, 1)

    def test_compacted_control_data(self):
        """The old record of a subscription is gone, and with it when it came: ids follow from that."""
        script = busy()
        script.records.append(subscription("ops", every_ms=1))
        script.tick()
        written = as_written(script.log())
        log = script.log()
        without = [record for record in script.control() if record.offset != 1]
        compacted = replace(log, history=tuple(control.fold(without)))
        proof = prove(compacted, written)
        assert (proof.same, proof.reach.exact_ids) == (True, False)
        assert proof.undecided > 0

    def test_ids_are_left_out_when_they_cannot_be_known(self):
        script = busy()
        script.records.append(subscription("ops", every_ms=1))
        script.tick()
        script.tick(3 * WINDOW_MS)
        script.publish({"z": 1}, "fresh")
        script.tick(3 * WINDOW_MS)
        log = script.log()
        without = [record for record in script.control() if record.offset != 1]
        proof = prove(replace(log, history=tuple(control.fold(without))), as_written(log), CompareScope(key="fresh"))
        assert (proof.same, proof.notifications.same) == (True, 2)

    def test_what_an_earlier_service_wrote_is_left_out(self):
        script = busy()
        written = as_written(script.log())
        one = written.delivered[0]
        note = replace(decode_notification(one.value or b""), id="of the other")
        old = record_with(one, value=encode_notification(note, Encoding.JSON))
        script.tick(service="s2")
        script.tick(service="s2")
        log = script.log()
        again = as_written(log)
        proof = prove(log, replace(again, delivered=(*again.delivered, old)))
        assert (proof.same, proof.books.startswith("not compared"), proof.others_until_ms is not None) == (True, True, True)


STREAM = st.lists(
    st.tuples(
        st.sampled_from(["x", "y"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(0, WINDOW_MS),
        st.one_of(st.just(0), st.integers(0, 2 * WINDOW_MS)),
    ),
    min_size=1,
    max_size=25,
)


def streamed(stream: list[tuple[str, str, int, int, int]]) -> HandmadeLog:
    """A log with these messages: key, field, value, the pause after it, and how long before it was published."""
    script = HandmadeLog()
    script.tick()
    script.publish({"a": 0}, "x")
    for key, name, value, pause_ms, age_ms in stream:
        script.publish({name: value}, key, published_ms=script.now_ms - age_ms)
        script.tick(pause_ms + 1)
    script.tick(3 * WINDOW_MS)
    return script


@given(STREAM, st.floats(0, 1))
def test_wherever_the_log_is_cut_a_service_that_did_right_is_never_blamed(stream, share):
    script = streamed(stream)
    whole = script.log()
    assert prove(whole, as_written(whole)).same
    assert prove(script.log(int(share * len(script.rows))), as_written(whole)).differences == ()


@given(STREAM, st.data())
def test_in_a_whole_log_whatever_is_lost_or_made_up_is_found(stream, data):
    script = streamed(stream)
    log = script.log()
    written = as_written(log)
    which = data.draw(st.integers(0, len(written.delivered) - 1))
    lost = written.delivered[:which] + written.delivered[which + 1 :]
    assert found(prove(log, replace(written, delivered=lost))) == [("notification", "missing")]
    one = written.delivered[which]
    note = replace(decode_notification(one.value or b""), event="x" * 24, id="made up")
    encoding = Encoding.JSON if (one.value or b"").startswith(b"{") else Encoding.AVRO
    made_up = record_with(one, value=encode_notification(note, encoding))
    assert found(prove(log, replace(written, delivered=(*written.delivered, made_up)))) == [("notification", "beside")]
