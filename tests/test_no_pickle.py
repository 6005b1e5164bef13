"""Bytes from elsewhere become data, never code: no module loads objects from bytes, evaluates text or hands it to a shell."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = [name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
MODULES = [path for name in [*PACKAGES, "benchmarks", "docker"] for path in sorted((ROOT / name).rglob("*.py"))]

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "pty"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "breakpoint"}
FORBIDDEN_ATTRIBUTES = {
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("os", "system"),
    ("os", "popen"),
    ("pd", "read_pickle"),
    ("pandas", "read_pickle"),
    ("np", "load"),
    ("numpy", "load"),
    ("subprocess", "getoutput"),
    ("subprocess", "getstatusoutput"),
    ("F", "expr"),
}
"""`F.expr` reads SQL: only texts that stand in the code itself may be given to it."""


def faults(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=found):
                yield from (f"imports {each.name}" for each in found if each.name.split(".")[0] in FORBIDDEN_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                yield f"imports {module}"
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield f"calls {name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (owner, name) in FORBIDDEN_ATTRIBUTES:
                if (owner, name) != ("F", "expr") or not _is_own_text(node):
                    yield f"calls {owner}.{name}"
            case _:
                pass
        if isinstance(node, ast.Call):
            yield from _of_arguments(node)


def _of_arguments(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        on = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        if keyword.arg in ("shell", "allow_pickle") and on:
            yield f"says {keyword.arg}={ast.unparse(keyword.value)}"


def _is_own_text(call: ast.Call) -> bool:
    """Whether an argument is a text of the code; what is put into it may be numbers and constants in capitals only."""
    (text,) = call.args
    if isinstance(text, ast.Constant):
        return True
    held = (
        [part.value for part in text.values if isinstance(part, ast.FormattedValue)]
        if isinstance(text, ast.JoinedStr)
        else [text]
    )
    return all(_is_harmless(each) for each in held)


def _is_harmless(value: ast.expr) -> bool:
    named = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    named |= {node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute)}
    return all(name.isupper() or name in ("avro", "hex", "routing", "end") for name in named)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_turns_bytes_or_text_into_code(path: Path):
    assert list(faults(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_all_packages_are_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} >= set(PACKAGES)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import os, marshal",
        "from cloudpickle import dumps",
        "import pickle as p",
        "eval('1')",
        "exec(code)",
        "yaml.load(text)",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=wanted)",
        "np.load(path, allow_pickle=True)",
        "F.expr(text)",
        "F.expr(f'substring(value, {message})')",
    ],
)
def test_what_is_forbidden_is_found(code: str):
    assert list(faults(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["re.compile('a')", "subprocess.run(['ls'], shell=False)", "F.expr('a + 1')", "yaml.safe_load(t)"]
)
def test_what_is_harmless_is_left_alone(code: str):
    assert not list(faults(ast.parse(code)))
