"""One service a directory, and nothing left running by one that was killed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from service.directory.directory import ChildProcess, ServiceDirectory, require_space
from tidings.errors import AlreadyRunning, CannotRun

HOLD = """
import sys, time
from pathlib import Path
from service.directory.directory import ServiceDirectory
directory = ServiceDirectory.open(Path(sys.argv[1]))
{then}
print("held", flush=True)
time.sleep(60)
"""
START_A_CHILD = """
import subprocess
directory.record_process("kafka", subprocess.Popen([sys.executable, "-c", sys.argv[2]], start_new_session=True).pid)
"""
# A process with a child of its own, as Spark's Java machine has Python workers; both refuse to end when asked.
STUBBORN_FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
time.sleep(60)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python processes and ends them with the test."""
    started: list[subprocess.Popen[str]] = []

    def start_python(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start_python
    for process in started:
        with process:
            process.kill()


def hold(start: Start, path: Path, then: str = "", *arguments: object) -> subprocess.Popen[str]:
    """Another process that has opened the directory."""
    process = start(HOLD.format(then=then), path, *arguments)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_second_service_is_refused_and_told_who_holds_it(start: Start, tmp_path: Path) -> None:
    holder = hold(start, tmp_path)
    with pytest.raises(AlreadyRunning, match=rf"^{tmp_path} is in use by the service with pid {holder.pid}; stop it first or"):
        ServiceDirectory.open(tmp_path)


def test_a_killed_service_holds_nothing(start: Start, tmp_path: Path) -> None:
    kill(hold(start, tmp_path))
    with ServiceDirectory.open(tmp_path) as directory:
        assert all(folder.is_dir() for folder in (directory.kafka, directory.checkpoint, directory.control, directory.logs))


def test_a_child_does_not_hold_the_lock_of_a_killed_service(start: Start, tmp_path: Path) -> None:
    kill(hold(start, tmp_path, START_A_CHILD, "import time; time.sleep(60)"))
    with ServiceDirectory.open(tmp_path) as directory:
        assert [process.role for process in directory.end_orphans(lambda _: None)] == ["kafka"]


def test_a_closed_directory_can_be_opened_again(tmp_path: Path) -> None:
    for _ in range(2):
        with ServiceDirectory.open(tmp_path):
            pass


def test_orphans_are_ended_with_their_children_even_if_they_refuse(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.directory.directory._END_S", 0.5)
    kill(hold(start, tmp_path, START_A_CHILD, STUBBORN_FAMILY))
    recorded = json.loads((tmp_path / "processes.json").read_text())[0]
    orphan = psutil.Process(recorded["pid"])
    family = [orphan, *wait_for_children(orphan)]
    said: list[str] = []
    with ServiceDirectory.open(tmp_path) as directory:
        assert directory.end_orphans(said.append) == [ChildProcess(**recorded)]
        assert directory.end_orphans(said.append) == []
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family)
    assert said == [f"ending kafka (pid {orphan.pid}), left over from a run that was killed"]


def wait_for_children(process: psutil.Process) -> list[psutil.Process]:
    for _ in range(100):
        if children := process.children():
            time.sleep(0.1)  # until the child refuses too
            return children
        time.sleep(0.05)
    raise AssertionError("no child came")


def test_another_process_with_the_number_of_an_old_one_is_left_alone(start: Start, tmp_path: Path) -> None:
    bystander = start("import time; time.sleep(60)")
    with ServiceDirectory.open(tmp_path) as directory:
        directory.record_process("kafka", bystander.pid)
        recorded = json.loads((tmp_path / "processes.json").read_text())
        recorded[0]["created_s"] -= 3600
        (tmp_path / "processes.json").write_text(json.dumps(recorded))
        assert directory.end_orphans(lambda _: None) == []
    assert bystander.poll() is None


def test_what_has_ended_is_not_kept_in_the_records(start: Start, tmp_path: Path) -> None:
    with ServiceDirectory.open(tmp_path) as directory:
        gone, alive = start("input()"), start("import time; time.sleep(60)")
        directory.record_process("spark", gone.pid)
        kill(gone)
        directory.record_process("kafka", alive.pid)
        assert [line["role"] for line in json.loads((tmp_path / "processes.json").read_text())] == ["kafka"]


def test_a_running_service_is_found_without_its_lock(tmp_path: Path) -> None:
    assert ServiceDirectory.locate(tmp_path / "nowhere") is None
    with ServiceDirectory.open(tmp_path) as directory:
        assert ServiceDirectory.locate(tmp_path) is None
        directory.record_ready("127.0.0.1:20000", os.getpid(), "http://127.0.0.1:20001/metrics")
        assert ServiceDirectory.locate(tmp_path) == "127.0.0.1:20000"
        ready = ServiceDirectory.ready(tmp_path)
        assert ready is not None
        assert ready.metrics == "http://127.0.0.1:20001/metrics"
        assert ready.process.pid == os.getpid()
    assert ServiceDirectory.locate(tmp_path) is None


def test_a_killed_service_is_not_found(start: Start, tmp_path: Path) -> None:
    holder = hold(start, tmp_path, "import os; directory.record_ready('127.0.0.1:20000', os.getpid())")
    assert ServiceDirectory.locate(tmp_path) == "127.0.0.1:20000"
    kill(holder)
    assert ServiceDirectory.locate(tmp_path) is None


def test_the_secret_is_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    with ServiceDirectory.open(tmp_path) as directory:
        secret = directory.secret
    assert len(bytes.fromhex(secret)) == 32
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    with ServiceDirectory.open(tmp_path) as directory:
        assert directory.secret == secret


def test_a_lost_secret_is_not_made_anew_beside_a_checkpoint(tmp_path: Path) -> None:
    with ServiceDirectory.open(tmp_path) as directory:
        (directory.checkpoint / "offsets").mkdir()
        with pytest.raises(CannotRun, match="secret is gone"):
            _ = directory.secret


def test_a_damaged_secret_is_said(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short\n")
    with ServiceDirectory.open(tmp_path) as directory, pytest.raises(CannotRun, match="secret is damaged"):
        _ = directory.secret


def test_damaged_records_are_said(tmp_path: Path) -> None:
    (tmp_path / "processes.json").write_text('[{"pid": 1')
    with ServiceDirectory.open(tmp_path) as directory, pytest.raises(CannotRun, match=r"processes\.json is damaged"):
        directory.end_orphans(lambda _: None)


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match=r"^cannot use .*: Not a directory; choose another --dir$"):
        ServiceDirectory.open(tmp_path / "file" / "dir")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CannotRun, match="Permission denied"):
        ServiceDirectory.open(tmp_path)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"^only \d+ MB are free in .*, 10{15} MB are needed; make room or choose"):
        require_space(tmp_path, 10**15)
    with pytest.raises(CannotRun, match="make room"):
        ServiceDirectory.open(tmp_path, least_free_mb=10**15)
