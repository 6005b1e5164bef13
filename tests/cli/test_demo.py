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
    assert {told["subscription"] for told in summary["windows"]} == {"motorway", "bridge"}
    assert all(told["window"]["end_ms"] - told["window"]["start_ms"] == 10_000 for told in summary["windows"])
    into_the_motorways_broker = summary["windows_by_link"]["b4→b7"]
    assert 0 < into_the_motorways_broker["sent"] < into_the_motorways_broker["would"]["forward"]


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
