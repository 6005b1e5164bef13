"""`tidings up` on a machine that lacks something: one clear line, no trace, the right exit code."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def up(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidings", "up", "--dir", str(tmp_path / "dir"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def the_line(said: str) -> str:
    complaints = [line for line in said.splitlines() if line.startswith("tidings: ")]
    assert len(complaints) == 1, said
    assert "Traceback" not in said
    return complaints[0]


# These two end before anything is started: no process of their own, which would load Spark for it.


def test_no_java(tidings, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    done = tidings("up", "--dir", str(tmp_path / "dir"))
    assert done.code == 1
    assert "Java" in the_line(done.err)
    assert "JAVA_HOME" in the_line(done.err)


def test_an_old_java(tidings, tmp_path, monkeypatch):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", "")
    done = tidings("up", "--dir", str(tmp_path / "dir"))
    assert done.code == 1
    assert "11" in the_line(done.err)


@pytest.mark.usefixtures("java")
def test_a_kafka_that_cannot_be_reached(tmp_path):
    done = up(tmp_path, "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 1
    assert "no Kafka broker answers at 127.0.0.1:1" in the_line(done.stderr)


@pytest.mark.usefixtures("java")
def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = up(tmp_path, "--port", str(port))
    assert done.returncode == 1
    assert str(port) in the_line(done.stderr)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[spark]\nbuckets = 0\n", ["spark.buckets", "0"]),
        ("[spark]\nbukets = 8\n", ["bukets", "buckets"]),
        ("[defaults]\nhold_ms = 'long'\n", ["defaults.hold_ms", "'long'"]),
        ("not toml", ["TOML"]),
    ],
)
def test_a_wrong_file_names_the_key_the_value_and_what_is_allowed(tidings, tmp_path, text, said):
    file = tmp_path / "tidings.toml"
    file.write_text(text)
    done = tidings("up", "--dir", str(tmp_path / "dir"), "--config", str(file))
    assert done.code == 2
    assert all(word in done.complaint for word in said), done.err


@pytest.mark.usefixtures("java")
def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "dir").write_text("a file")
    done = up(tmp_path)
    assert done.returncode == 1
    assert "--dir" in the_line(done.stderr)
