"""What a record of the log is."""

from __future__ import annotations

from streaming.wire.inputs import MESSAGE, kind_of
from streaming.wire.record import Record


def test_what_is_no_mark_is_a_message():
    records = [Record("publish.b1", 0, 0, 0, None, value) for value in (None, b"", b"{}", b"\x00")]
    assert [kind_of(record) for record in records] == [MESSAGE] * 4
