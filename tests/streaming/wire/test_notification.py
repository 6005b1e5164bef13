"""Every notification reads as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.wire.notification import decode_notification, encode_notification
from tidings.notification import Digested, Encoding, Notification, Reason

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.lists(texts, max_size=3).map(tuple),
)
notifications = st.builds(
    Notification,
    id=names,
    subscriber=names,
    subscription=names,
    topic=names,
    key=names,
    event=names,
    revision=st.integers(1, 99),
    reason=st.sampled_from(Reason),
    news=st.dictionaries(names, values, max_size=3),
    reports=st.integers(0, 99),
    sources=st.integers(0, 99),
    first_ms=st.integers(0, 2**40),
    last_ms=st.integers(0, 2**40),
    conflicts=st.dictionaries(names, st.lists(values, min_size=1, max_size=2).map(tuple), max_size=2),
    digest=st.lists(
        st.builds(
            Digested,
            event=names,
            news=st.dictionaries(names, values, max_size=2),
            first_ms=st.integers(0, 2**40),
            last_ms=st.integers(0, 2**40),
        ),
        max_size=2,
    ).map(tuple),
)


@given(notifications, st.sampled_from(Encoding))
def test_notifications_round_trip(notification, encoding):
    assert decode_notification(encode_notification(notification, encoding)) == notification
