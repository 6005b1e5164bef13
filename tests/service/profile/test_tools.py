"""The profilers as they are called, and machines that lack them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from service.kafka.java import Java
from service.profile import tools
from service.profile.tools import AsyncProfiler, find_py_spy, page_command, py_spy_command
from tidings.errors import CannotRun


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "loader.jar"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("linux-x64", "linux-arm64", "macos"):
            archive.writestr(f"libs/asprof-4.3-{name}", f"program for {name}")
            archive.writestr(f"libs/libasyncProfiler-4.3-{name}.{'dylib' if name == 'macos' else 'so'}", f"library for {name}")
            archive.writestr(f"libs/ap-profile-lib-4.3-{name}", "something else")
    return path


def machine(monkeypatch: pytest.MonkeyPatch, system: str, kind: str) -> None:
    monkeypatch.setattr(tools.platform, "system", lambda: system)
    monkeypatch.setattr(tools.platform, "machine", lambda: kind)


@pytest.mark.parametrize(
    ("system", "kind", "name", "event"),
    [
        ("Linux", "x86_64", "linux-x64", "ctimer"),
        ("Linux", "aarch64", "linux-arm64", "ctimer"),
        ("Darwin", "arm64", "macos", "itimer"),
    ],
)
def test_the_one_for_this_machine(
    jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, kind: str, name: str, event: str
):
    machine(monkeypatch, system, kind)
    profiler = AsyncProfiler.unpack(jar, tmp_path / "here")
    assert profiler.program.read_text() == f"program for {name}"
    assert profiler.library.read_text() == f"library for {name}"
    assert profiler.program.stat().st_mode & 0o111
    command = profiler.command(4711, 60, tmp_path / "out")
    assert command[0] == str(profiler.program)
    assert command[-1] == "4711"
    assert " ".join(command[1:5]) == f"-d 60 -e {event}"
    assert command[command.index("--libpath") + 1] == str(profiler.library)


def test_a_machine_that_there_is_none_for(jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    machine(monkeypatch, "Linux", "riscv64")
    with pytest.raises(CannotRun, match="nothing for Linux on riscv64"):
        AsyncProfiler.unpack(jar, tmp_path / "here")


def test_no_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tools.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match=r"pip install 'tidings\[profile\]'"):
        find_py_spy()
    (tmp_path / "py-spy").touch(mode=0o755)
    assert find_py_spy() == tmp_path / "py-spy"


def test_python_is_sampled_as_often_as_java(tmp_path: Path):
    java = AsyncProfiler(Path("asprof"), Path("lib.so")).command(1, 5, tmp_path / "out")
    python = py_spy_command(Path("py-spy"), 1, 5, tmp_path / "out", with_children=True)
    interval_ns, hertz = int(java[java.index("-i") + 1]), int(python[python.index("--rate") + 1])
    assert abs(interval_ns * hertz - 1_000_000_000) < hertz
    assert python[-1] == "--subprocesses"
    assert "--subprocesses" not in py_spy_command(Path("py-spy"), 1, 5, tmp_path / "out", with_children=False)


def test_the_page_is_made_by_the_converter_in_the_jar(tmp_path: Path):
    command = page_command(Java(Path("java"), 17), tmp_path / "a.jar", tmp_path / "in", "a title", tmp_path / "out.html")
    assert "one.converter.Main" in command
    assert command[-4:] == ["--title", "a title", str(tmp_path / "in"), str(tmp_path / "out.html")]
