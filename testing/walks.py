"""How long the walks of docs/walks.md are, by the functions that one has to read. `python -m testing.walks` prints the table.

The functions stand in `walks.toml`, for now and for a commit long ago. Functions inside functions count too.
"""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from testing.docs import ROOT, table

THEN = "e87d8cb"
"""Before the rooms were put in order."""


@dataclass(frozen=True, slots=True)
class Length:
    """What there is to read. ``rooms`` is how often the next function is in another folder."""

    functions: int
    lines: int
    files: int
    rooms: int


def length_of(walk: str, text_of: Callable[[str], str]) -> Length:
    """The length of a walk: in each line a file, a colon, and the names of functions. ``text_of`` gives the text of a file."""
    steps = [(path, names.split()) for path, names in (line.split(":") for line in walk.split("\n") if line)]
    files = {path: dict(_functions(ast.parse(text_of(path)))) for path, _ in steps}
    found = [files[path][name] for path, names in steps for name in names]
    folders = [Path(path).parent for path, _ in steps]
    return Length(
        functions=sum(isinstance(each, ast.FunctionDef) for function in found for each in ast.walk(function)),
        lines=sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in found),
        files=len(files),
        rooms=sum(before != after for before, after in pairwise(folders)),
    )


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef))


def _then(path: str) -> str:
    return subprocess.run(["git", "show", f"{THEN}:{path}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def walks() -> list[dict[str, str]]:
    """The walks by name, and what there is to read on each: then, and now."""
    found: list[dict[str, str]] = tomllib.loads((ROOT / "testing" / "walks.toml").read_text(encoding="utf-8"))["walk"]
    return found


def length_now(walk: dict[str, str]) -> Length:
    return length_of(walk["now"], lambda path: (ROOT / path).read_text(encoding="utf-8"))


def main() -> None:
    rows = []
    for walk in walks():
        then, now = length_of(walk["then"], _then), length_now(walk)
        each = [(then.functions, now.functions), (then.lines, now.lines), (then.files, now.files), (then.rooms, now.rooms)]
        rows.append([walk["name"], *(str(number) for pair in each for number in pair)])
    counted = ("functions", "lines of these", "files", "changes of room")
    print(table(["walk", *(head for name in counted for head in (f"{name} then", "now"))], rows), end="")


if __name__ == "__main__":
    main()
