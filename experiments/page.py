"""Writes the page of results, docs/results.md, from what the experiments left as JSON.

Neither dates nor durations stand on it: it changes when a result does.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.harness import basis

_QUICK = (
    "**This was a quick run**, with fewer seeds and smaller sizes: it shows that everything works, and its figures are rough."
)


def write_page(
    results: Sequence[Mapping[str, Any]], folder: Path | None, page: Path, *, command: str = "tidings experiment all"
) -> None:
    """Write the page, and copy beside it the plots that are in the folder. Without a folder there are none."""
    page.parent.mkdir(parents=True, exist_ok=True)
    sections = [_section(result, _picture(result["name"], folder, page)) for result in results]
    page.write_text("\n".join([*_head(results, command), *_overview(results), *sections]), encoding="utf-8")


def _head(results: Sequence[Mapping[str, Any]], command: str) -> list[str]:
    lines = [
        "# Results",
        "",
        f"Written by `{command}`: what the papers measured, measured again. A claim that does not hold is listed like",
        "the others.",
        "",
    ]
    return [*lines, _QUICK, ""] if any(result["quick"] for result in results) else lines


def _overview(results: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        [
            f"[{result['name']}](#{result['name']})",
            result["paper"],
            f"{sum(claim['holds'] for claim in result['claims'])} of {len(result['claims'])}",
        ]
        for result in results
    ]
    return [_table(["experiment", "repeats", "claims that hold"], rows)]


def _section(result: Mapping[str, Any], picture: str | None) -> str:
    parts = [
        f'<a id="{result["name"]}"></a>\n\n## {_flat(result["title"])}\n',
        f"{_flat(result['paper'])}. `{result['command']}`; {basis(result['seeds'])}.\n",
    ]
    if picture is not None:
        parts.append(f"![{_flat(result['title'])}]({picture})\n")
    parts.append(_table(result["table"]["columns"], result["table"]["rows"]))
    if result["claims"]:
        claims = [[c["claim"], c["paper"], c["ours"], "yes" if c["holds"] else "**no**"] for c in result["claims"]]
        parts.append(_table(["claim", "paper", "ours", "holds"], claims))
    if result["notes"]:
        parts.append("".join(f"- {_flat(note)}\n" for note in result["notes"]))
    return "\n".join(parts)


def _picture(name: str, folder: Path | None, page: Path) -> str | None:
    """Copy the plot to where the page can show it; gives its address as seen from the page."""
    drawn = None if folder is None else folder / f"{name}.svg"
    if drawn is None or not drawn.is_file():
        return None
    beside = page.parent / page.stem
    beside.mkdir(exist_ok=True)
    shown = beside / drawn.name
    if not (shown.exists() and shown.samefile(drawn)):
        shutil.copyfile(drawn, shown)
    return f"{beside.name}/{drawn.name}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head, *body = (f"| {' | '.join(_cell(each) for each in line)} |\n" for line in [columns, *rows])
    return f"{head}|{'---|' * len(columns)}\n{''.join(body)}"


def _cell(text: str) -> str:
    return _flat(text).replace("|", "\\|")


def _flat(text: str) -> str:
    return " ".join(text.split())
