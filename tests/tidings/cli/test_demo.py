"""The demo, as a new user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.timeout(200)]


def test_it_shows_the_point_and_holds_itself_to_the_reference():
    command = [sys.executable, "-m", "tidings", "demo", "--events", "12", "--witnesses", "20", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["holds"]
    assert summary["differences"] == []
    assert len(summary["books"]["brokers"]) == 7
    assert summary["suppressed_share"] > 0.5
    assert 0 < summary["delay_s"] < 20
    assert 0 < summary["link_messages"] < summary["baseline_link_messages"]
    assert {(link["sender"], link["to"]) for link in summary["links"]} >= {("b1", "b2"), ("b2", "b1"), ("b4", "b5")}


def test_ctrl_c_stops_everything_it_started():
    command = [sys.executable, "-m", "tidings", "demo", "--events", "12"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        while "starting Spark" not in process.stderr.readline():
            assert process.poll() is None
        started = psutil.Process(process.pid).children(recursive=True)
        assert any("java" in child.name() for child in started)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive
