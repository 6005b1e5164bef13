"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.kafka.java import Java, find_java
from tidings.errors import CannotRun

SAYS = {
    "8": 'openjdk version "1.8.0_412"',
    "11": 'openjdk version "11.0.23" 2024-04-16',
    "17": 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)',
    "21": 'java version "21" 2023-09-19 LTS',
    "26": 'openjdk version "26-ea" 2026-03-17',
    "17 with options": 'Picked up JAVA_TOOL_OPTIONS: -Dversion=1\nopenjdk version "17.0.1" 2021-10-19',
}


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def fake_java(folder: Path, says: str, stream: int = 2) -> Path:
    """A script that answers ``-version`` as a Java would."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\nwhile read -r line; do echo \"$line\" >&{stream}; done <<'END'\n{says}\nEND\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(("says", "version"), [("17", 17), ("21", 21), ("26", 26), ("17 with options", 17)])
def test_a_java_on_the_path_is_taken(tmp_path: Path, says: str, version: int) -> None:
    java = fake_java(tmp_path / "bin", SAYS[says])
    assert find_java() == Java(java, version)


def test_a_java_that_answers_on_the_other_stream_is_taken(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", SAYS["17"], stream=1)
    assert find_java().version == 17


@pytest.mark.parametrize("version", ["8", "11"])
def test_an_old_java_is_named_with_its_version_and_the_way_out(tmp_path: Path, version: str) -> None:
    java = fake_java(tmp_path / "bin", SAYS[version])
    said = refusal()
    assert f"{java} is Java {version}" in said
    assert "openjdk-17-jre-headless" in said


def test_no_java_says_how_to_get_one() -> None:
    said = refusal()
    assert "no java is on the path" in said
    assert "apt-get install openjdk-17-jre-headless" in said
    assert "brew install openjdk@17" in said
    assert "JAVA_HOME" in said


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", SAYS["11"])
    java = fake_java(tmp_path / "home" / "bin", SAYS["21"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(java, 21)


def test_a_java_home_without_java_is_said_and_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", SAYS["17"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert f"JAVA_HOME is {tmp_path / 'gone'}" in refusal()


@pytest.mark.parametrize("says", ["", "The operation couldn’t be completed. Unable to locate a Java Runtime.\nPlease visit …"])
def test_an_answer_without_a_version_is_quoted(tmp_path: Path, says: str) -> None:
    fake_java(tmp_path / "bin", says)
    assert repr(says.split("\n")[0] or "nothing") in refusal()


def test_a_java_that_does_not_run_is_said(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", "").write_text("#!/no/such/shell\n")
    assert "does not run" in refusal()


def test_another_minimum_can_be_asked_for(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", SAYS["17"])
    with pytest.raises(CannotRun, match="Java 21 or newer is needed"):
        find_java(21)


def refusal() -> str:
    with pytest.raises(CannotRun) as caught:
        find_java()
    said = str(caught.value)
    assert "\n" not in said
    return said
