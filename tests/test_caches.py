"""What lives longer than a batch is listed in one place, with its bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("tidings", "topology", "streaming", "clients", "producers", "audit", "service", "demo", "cli", "experiments")
MADE = {"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}


def name_of(node: ast.expr) -> str:
    """The last part of what is called: `lru_cache` of `functools.lru_cache(8)`."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def bound_of(node: ast.expr) -> str | None:
    """What an `lru_cache` says."""
    if not isinstance(node, ast.Call):
        return None
    said = [*node.args, *(each.value for each in node.keywords if each.arg == "maxsize")]
    return ast.unparse(said[0]) if said else None


def is_growing(value: ast.expr | None) -> bool:
    """Whether something empty is made, which only makes sense if it is filled later."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return isinstance(value, ast.Call) and name_of(value) in MADE and not any(isinstance(a, ast.GeneratorExp) for a in value.args)


def caches(path: Path) -> Iterator[tuple[str, str | None]]:
    """The caches of a module, each with the bound that stands in the code."""
    tree, module = ast.parse(path.read_text(encoding="utf-8")), ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if name_of(decorator) in ("cache", "lru_cache"):
                    yield f"{module}.{node.name}", bound_of(decorator)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id.islower() and is_growing(getattr(node, "value", None)):
                yield f"{module}.{target.id}", None


def listed() -> dict[str, str]:
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs/caches.md").read_text(encoding="utf-8").splitlines()]
    return {cells[0].strip("`"): cells[2] for cells in rows if len(cells) == 4 and cells[0].startswith("`")}


def test_every_cache_is_listed_with_its_bound() -> None:
    found = {name: bound for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) for name, bound in caches(path)}
    told = listed()
    assert set(found) == set(told)
    assert {name: told[name] for name, bound in found.items() if bound} == {name: bound for name, bound in found.items() if bound}
    assert all(told.values())
