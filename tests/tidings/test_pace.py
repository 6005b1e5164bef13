"""The properties by which a subscription asks for a pace."""

from __future__ import annotations

import os
from pathlib import Path

from tidings.subscription import PACE_PROPERTIES, Subscription

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- paces: begin -->\n\n", "\n<!-- paces: end -->"


def test_who_says_nothing_asks_for_nothing():
    plain = Subscription("ops", "ops", "b1", "incident", "notify.ops")
    assert [getattr(plain, name) for name in PACE_PROPERTIES] == [0] * len(PACE_PROPERTIES)


def table() -> str:
    """What makes news wait comes first."""
    rows = ["| property | means |", "|---|---|"]
    for name, asked in sorted(PACE_PROPERTIES.items(), key=lambda item: not item[1].of_events):
        rows.append(f"| `{name}` | {f'1 to {most}: ' if (most := asked.times_an_hour) else ''}{asked.means} |")
    return "\n".join(rows) + "\n"


def test_the_documented_paces_are_the_declared_ones():
    """`make docs` writes the table anew: it runs this test with WRITE_DOCS=1. It may stand on any page."""
    pages = [path for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")) if BEGIN in path.read_text(encoding="utf-8")]
    assert len(pages) == 1, "one page must hold the two marks"
    before, _, rest = pages[0].read_text(encoding="utf-8").partition(BEGIN)
    written, end, after = rest.partition(END)
    assert end
    if os.environ.get("WRITE_DOCS"):
        pages[0].write_text(before + BEGIN + table() + END + after, encoding="utf-8")
    else:
        assert written == table(), "write it anew with `make docs`"
