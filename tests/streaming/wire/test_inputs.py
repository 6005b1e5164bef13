"""Marks: whose they are, and what they may say."""

from __future__ import annotations

import pytest

from streaming.wire.inputs import MARK, MESSAGE, TickerIdentity, kind_of
from tidings import names

OURS = TickerIdentity("s1", "secret")


def test_a_mark_says_its_version_to_its_own_service():
    assert OURS.version_in(OURS.mark(7)) == 7
    assert kind_of("publish.b1", OURS.mark(7)) == MARK


@pytest.mark.parametrize(
    "mark",
    [
        TickerIdentity("s2", "secret").mark(7),
        TickerIdentity("s1", "another secret").mark(7),
        OURS.mark(7).replace(b" 7 ", b" 8 "),
        names.MARK_START,
        names.MARK_START + b" s1 x y",
        names.MARK_START + b" s1 " + b"9" * 400 + b" y",
    ],
)
def test_others_marks_only_tell_the_time(mark):
    assert kind_of("publish.b1", mark) == MARK
    assert OURS.version_in(mark) is None


def test_who_replays_the_log_need_not_know_the_secret():
    assert TickerIdentity("s1").version_in(OURS.mark(7)) == 7


def test_what_is_no_mark_is_a_message():
    assert [kind_of("publish.b1", value) for value in (None, b"", b"{}", b"\x00")] == [MESSAGE] * 4
