"""The jars are fetched once, checked, and never half there."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service.kafka import jars
from service.kafka.jars import ROOTS, Advance, Jar, Lock, install
from tidings.errors import CannotRun

CONTENT = {f"org.example:part{number}:1.{number}": b"part" * (number + 1) * 1000 for number in range(6)}


def name_of(coordinate: str) -> str:
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


@pytest.fixture
def lock() -> Lock:
    lines = (Jar(name_of(key), key, hashlib.sha256(value).hexdigest(), len(value)) for key, value in CONTENT.items())
    return Lock("example", "0123", tuple(lines))


class Repository:
    """Gives the jars and remembers what was asked for; ``trouble`` may raise for a coordinate, or change what comes."""

    def __init__(self, trouble: Callable[[str, bytes], bytes] = lambda _coordinate, content: content) -> None:
        self.trouble = trouble
        self.asked: list[str] = []

    def __call__(self, coordinate: str, scratch: Path, advance: Advance) -> Path:
        self.asked.append(coordinate)
        content = self.trouble(coordinate, CONTENT[coordinate])
        file = scratch / f"{coordinate.replace(':', '-')}.download"
        file.write_bytes(content)
        advance(len(content))
        return file


def no_network(coordinate: str, _scratch: Path, _advance: Advance) -> Path:
    raise AssertionError(f"{coordinate} was asked for")


def breaks_at(bad: str, error: BaseException) -> Callable[[str, bytes], bytes]:
    def trouble(coordinate: str, content: bytes) -> bytes:
        if coordinate == bad:
            raise error
        return content

    return trouble


def test_the_second_start_asks_nobody(lock: Lock, tmp_path: Path) -> None:
    first = install(lock, tmp_path, Repository())
    assert [path.read_bytes() for path in first] == list(CONTENT.values())
    assert install(lock, tmp_path, no_network) == first


def test_nothing_but_the_jars_and_the_mark_is_kept(lock: Lock, tmp_path: Path) -> None:
    folder = install(lock, tmp_path, Repository())[0].parent
    assert {path.name for path in folder.iterdir()} == {"complete", *map(name_of, CONTENT)}


def test_a_wrong_checksum_names_the_jar_and_keeps_nothing_of_it(lock: Lock, tmp_path: Path) -> None:
    bad = lock.jars[2]
    repository = Repository(lambda coordinate, content: content[::-1] if coordinate == bad.coordinate else content)
    with pytest.raises(CannotRun, match=f"^{bad.name} is not the file that the lock names"):
        install(lock, tmp_path, repository)
    assert not list(tmp_path.rglob(f"*{bad.name}*"))
    assert install(lock, tmp_path, Repository())[2].read_bytes() == CONTENT[bad.coordinate]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CannotRun("cannot fetch it: no network?")], ids=["ctrl-c", "no network"])
def test_an_interrupted_fetch_goes_on_where_it_stopped(lock: Lock, tmp_path: Path, error: BaseException) -> None:
    last = min(lock.jars, key=lambda jar: jar.size).coordinate
    with pytest.raises(type(error)):
        install(lock, tmp_path, Repository(breaks_at(last, error)))
    kept = {path.name for path in tmp_path.rglob("*.jar")}
    again = Repository()
    install(lock, tmp_path, again)
    assert {name_of(coordinate) for coordinate in again.asked} == {jar.name for jar in lock.jars} - kept
    assert last in again.asked


def test_half_a_jar_of_a_killed_fetch_is_fetched_again(lock: Lock, tmp_path: Path) -> None:
    partial = tmp_path / "jars" / "example-0123.partial"
    (partial / ".fetch-left").mkdir(parents=True)
    (partial / lock.jars[0].name).write_bytes(b"half")
    paths = install(lock, tmp_path, Repository())
    assert paths[0].stat().st_size == lock.jars[0].size
    assert not list(tmp_path.rglob(".fetch-*"))


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["missing", "empty"])
def test_a_damaged_cache_is_made_again(lock: Lock, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    damage(install(lock, tmp_path, Repository())[3])
    assert install(lock, tmp_path, Repository())[3].stat().st_size == lock.jars[3].size


def test_two_at_the_same_time_fetch_once(lock: Lock, tmp_path: Path) -> None:
    both = threading.Barrier(2)
    repository = Repository()

    def start() -> list[Path]:
        both.wait()
        return install(lock, tmp_path, repository)

    with ThreadPoolExecutor(2) as pool:
        results = [future.result() for future in [pool.submit(start), pool.submit(start)]]
    assert results[0] == results[1]
    assert sorted(repository.asked) == sorted(CONTENT)


def test_a_cache_that_cannot_be_written_is_one_line(lock: Lock, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match=r"set TIDINGS_CACHE$"):
        install(lock, tmp_path / "file", Repository())


def test_without_a_terminal_there_is_a_line_at_the_start_and_one_at_the_end(
    lock: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(lock, tmp_path, Repository())
    install(lock, tmp_path, no_network)
    assert capsys.readouterr().err == ("fetching 6 example jars, 0.1 MB (only the first time)\nfetched the example jars\n")


def test_on_a_terminal_there_is_a_bar(
    lock: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    install(lock, tmp_path, Repository())
    assert "fetching 6 example jars" in capsys.readouterr().err


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("TIDINGS_CACHE", raising=False)
    assert jars.cache_directory() == tmp_path / "xdg" / "tidings"
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "own"))
    assert jars.cache_directory() == tmp_path / "own"


@pytest.mark.parametrize("name", ROOTS)
def test_the_committed_lock_fits_the_coordinates(name: str) -> None:
    said = json.loads((Path(jars.__file__).parent / f"{name}.lock.json").read_text())
    lock = Lock.read(name)
    assert said["roots"] == list(ROOTS[name])
    assert set(ROOTS[name]) <= {jar.coordinate for jar in lock.jars}
    assert all(jar.size > 0 and len(jar.sha256) == 64 and jar.name == name_of(jar.coordinate) for jar in lock.jars)
    assert len({jar.name for jar in lock.jars}) == len(lock.jars)


def test_kafka_parts_are_of_one_version() -> None:
    """A mixture starts and then fails in odd places; jgo gives one if a root may manage the others."""
    kafka = {jar.coordinate for jar in Lock.read("kafka").jars if jar.coordinate.startswith("org.apache.kafka:")}
    assert {coordinate.split(":")[2] for coordinate in kafka} == {"4.3.1"}
    assert len(kafka) > 10


class Served(BaseHTTPRequestHandler):
    """A small Maven repository: one jar, one that comes in half the first time, nothing else."""

    halves_left = 1

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if name not in ("whole-1.jar", "half-1.jar"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        if name == "half-1.jar" and Served.halves_left:
            Served.halves_left -= 1
            self.wfile.write(b"j" * 500)
        else:
            self.wfile.write(b"j" * 1000)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's settings name a mirror of their own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        (tmp_path / "jgo.conf").write_text(f"[repositories]\ncentral = http://127.0.0.1:{server.server_port}/maven\n")
        monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "jgo.conf"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("mirror")
class TestFetchWithJgo:
    def test_a_jar_comes_from_the_mirror_and_its_bytes_are_counted(self, tmp_path: Path) -> None:
        counted: list[int] = []
        file = jars.fetch_with_jgo("org.example:whole:1", tmp_path, counted.append)
        assert file.read_bytes() == b"j" * 1000
        assert sum(counted) == 1000

    def test_a_broken_connection_is_tried_again(self, tmp_path: Path) -> None:
        file = jars.fetch_with_jgo("org.example:half:1", tmp_path, lambda _: None)
        assert file.stat().st_size == 1000

    def test_a_jar_the_repository_lacks_is_one_line(self, tmp_path: Path) -> None:
        with pytest.raises(CannotRun, match=r"^cannot fetch org.example:none:1: the repository answers, but does not give it$"):
            jars.fetch_with_jgo("org.example:none:1", tmp_path, lambda _: None)

    def test_no_network_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "jgo.conf").write_text("[repositories]\ncentral = http://127.0.0.1:9/nobody\n")
        with pytest.raises(CannotRun, match=r"^cannot fetch org.example:whole:1: no network\? the first run needs it once$"):
            jars.fetch_with_jgo("org.example:whole:1", tmp_path, lambda _: None)
