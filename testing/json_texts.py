"""A test kit: JSON as people, programs and enemies may write it, for laws that two readers find the same in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_WORDS = ["topic", "key", "fields", "", "t", "ключ", "\\", '\\"topic', "a{b}c[d]:,", "é\n😀"]
_WORDS += ['"topic":"x"', 'x","key":"y', '{"key":"z"']
_NAMES = ["source", "id", "published_ms", "new", "{", 'a"topic', 'a"key', "topic\\", "key", ""]
_texts = st.sampled_from(_WORDS) | st.text('tk"\\{}[]:, \né😀\x00\x7f\u2028', max_size=6)


def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with these values."""
    return st.dictionaries(_texts, values, max_size=3)


_scalars = _texts | st.sampled_from([None, True, 0, -7, 2**63, 1.5, -0.0, 1e300])
_values = _scalars | st.lists(_texts, max_size=3)
_nested = st.recursive(_values, lambda deeper: st.lists(deeper, max_size=3) | _objects(deeper), max_leaves=6)
_spaces = st.sampled_from(["", "", "", "", " ", "\n", "\t \r"])
_LONG = ["k" * 1024, "é" * 512, "k" * 1025, "long" * 5000]


@st.composite
def json_messages(draw: st.DrawFn) -> bytes:
    """Publications in JSON; most are well formed, and many of these fit the rules of a message."""
    usual = _texts.filter(bool)
    about = st.one_of(usual, usual, usual, st.sampled_from(_LONG))
    pairs: list[tuple[str, Any]] = [("topic", draw(about)), ("key", draw(about))]
    pairs.append(("fields", draw(st.dictionaries(usual | st.sampled_from(["topic", "key"]), _values, max_size=4))))
    pairs += draw(st.just([]) | st.lists(st.tuples(st.sampled_from(_NAMES), _nested), max_size=2))
    text = _object(draw, draw(st.just(pairs) | st.permutations(pairs)))
    return _damaged(draw, text.encode("utf-8", "surrogatepass"))


def _object(draw: st.DrawFn, pairs: Any) -> str:
    written = [f"{draw(_spaces)}{_text(draw, name)}{draw(_spaces)}:{draw(_spaces)}{_any(draw, value)}" for name, value in pairs]
    return "{" + ",".join(written) + draw(_spaces) + "}"


def _any(draw: st.DrawFn, value: Any) -> str:
    match value:
        case str():
            return _text(draw, value)
        case dict():
            return _object(draw, value.items())
        case list():
            return "[" + ",".join(draw(_spaces) + _any(draw, item) for item in value) + "]"
    return json.dumps(value)


def _text(draw: st.DrawFn, text: str) -> str:
    """A string as JSON has it: as short as may be, in ASCII, or every character of it escaped."""
    match draw(st.integers(0, 9)):
        case 0:
            units = text.encode("utf-16-be")
            return '"' + "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)) + '"'
        case 1:
            return json.dumps(text).replace("/", "\\/")
    return json.dumps(text, ensure_ascii=False)


def _damaged(draw: st.DrawFn, value: bytes) -> bytes:
    at = draw(st.integers(1, len(value)))
    match draw(st.integers(0, 19)):
        case 0:
            return value[:at]
        case 1:
            return value[:at] + draw(st.binary(min_size=1, max_size=4)) + value[at:]
        case 2:
            marks = [b'"', b"\\", b"{", b"}", b"\xef\xbb\xbf", b"\\ud800", b'"topic":"x",', b'"key" : "y",', b"\x00", b"NaN"]
            return value[:at] + draw(st.sampled_from(marks)) + value[at:]
        case 3:
            return value[:at] + value[at + draw(st.integers(1, 3)) :]
    return value
