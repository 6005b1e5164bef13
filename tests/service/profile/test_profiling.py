"""Profiles: what is lacking is said, what there is is written, and the service goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.kafka.jars import profile_jar
from service.kafka.java import Java
from service.profile import profiling
from service.profile.profiling import FlameGraph, profiled
from service.profile.samplers import Sampler, sampled
from service.profile.stacks import SeenStacks
from service.up import StartedService
from testing.service import RunningService, wait_for
from tidings.errors import CannotRun


def sampler(tmp_path: Path, name: str, does: str) -> Sampler:
    """One that is a small program of the shell; ``$out`` is where it should write."""
    out = tmp_path / f"{name}.collapsed"
    return Sampler(name, ["/bin/sh", "-c", f"out='{out}'; {does}"], out, "do something about it")


def test_what_one_cannot_look_into_the_others_still_do(tmp_path: Path):
    said: list[str] = []
    refused = sampler(tmp_path, "python driver", "echo 'py-spy> hello'; echo 'Permission Denied: try again' >&2; exit 1")
    found = sampled([sampler(tmp_path, "java spark", 'echo "a;b 3" > "$out"'), refused], 1, threading.Event(), said.append)
    assert found == [SeenStacks("java spark", "a;b 3\n")]
    assert said == ["the profile lacks python driver: sh says 'Permission Denied: try again'; do something about it"]


def test_a_service_that_stops_has_what_was_seen_until_then(tmp_path: Path):
    stopping = threading.Event()
    interrupted = sampler(tmp_path, "java spark", "trap 'echo a 1 > \"$out\"; exit 0' INT; while :; do sleep 0.05; done")
    start_s = time.monotonic()
    threading.Timer(0.5, stopping.set).start()  # by then the shell has set its trap
    assert sampled([interrupted], 60, stopping, pytest.fail) == [SeenStacks("java spark", "a 1\n")]
    assert time.monotonic() - start_s < 5


def test_a_profiler_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("service.profile.samplers._GRACE_S", 0.3)
    said: list[str] = []
    assert sampled([sampler(tmp_path, "java kafka", "exec sleep 60")], 0.1, threading.Event(), said.append) == []
    assert "the profile lacks java kafka" in said[0]


def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path):
    for file in (tmp_path, tmp_path / "none" / "page.html"):
        with pytest.raises(CannotRun, match="cannot write the profile"):
            FlameGraph(file, 1).check(pytest.fail)


def test_without_py_spy_the_profile_is_of_java_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none() -> Path:
        raise CannotRun("py-spy is not installed: pip install it")

    monkeypatch.setattr(profiling, "find_py_spy", none)
    monkeypatch.setattr(profiling, "profile_jar", lambda: tmp_path / "a.jar")
    said: list[str] = []
    FlameGraph(tmp_path / "page.html", 1).check(said.append)
    assert said == ["the profile will lack Python: py-spy is not installed: pip install it"]


def test_whatever_goes_wrong_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_network() -> Path:
        raise CannotRun("cannot fetch it: no network?")

    monkeypatch.setattr(profiling, "profile_jar", no_network)
    said: list[str] = []
    with profiled(FlameGraph(tmp_path / "page.html", 1), {}, tmp_path / "profile", said.append):
        pass
    assert said == ["there is no profile: cannot fetch it: no network?"]
    assert list(tmp_path.iterdir()) == []


def test_no_profile_is_made_unless_asked_for(tmp_path: Path):
    with profiled(None, {}, tmp_path / "profile", pytest.fail):
        assert "profile" not in {thread.name for thread in threading.enumerate()}


def test_with_a_kafka_of_ones_own_only_spark_is_profiled():
    nothing: dict[str, Any] = dict.fromkeys(("bootstrap", "metrics_address", "directory", "keeper", "queries"))
    launcher: Any = SimpleNamespace(java_pid=7)
    assert StartedService(**nothing, kafka=None, launcher=launcher).java == {"java spark": 7}
    kafka: Any = SimpleNamespace(pid=8)
    assert StartedService(**nothing, kafka=kafka, launcher=launcher).java == {"java spark": 7, "java kafka": 8}


def stacks_of(page: Path, java: Java) -> str:
    """What stands on a page, as the converter reads it back."""
    back = page.with_suffix(".collapsed")
    command = [str(java.path), "-cp", str(profile_jar()), "one.converter.Main", "-o", "collapsed", str(page), str(back)]
    subprocess.run(command, check=True, capture_output=True)
    return back.read_text()


def test_a_service_is_profiled_while_it_runs(tmp_path: Path, java: Java):
    page = tmp_path / "page.html"
    options = ["--profile", str(page), "--profile-seconds", "8"]
    with RunningService.start(tmp_path / "dir", options=options) as service:
        service.apply({"kind": "topic", "name": "fire"}, {"kind": "subscription", "name": "ops", "topic": "fire"})
        wait_for("the page", lambda: "written to" in (tmp_path / "dir.stderr").read_text(), 60)
        assert service.process.poll() is None
        stacks = stacks_of(page, java)
    assert not (tmp_path / "dir" / "profile").exists()
    assert {line.split(";")[0] for line in stacks.splitlines()} >= {"java spark", "java kafka", "python worker"}
    for frame in (";MicroBatchExecution.", "java kafka;[", "(streaming/spark/events.py:"):
        assert frame in stacks
    assert sys.executable not in page.read_text(), "no command lines: they are nobody's business"
    assert os.fspath(tmp_path) not in page.read_text()
