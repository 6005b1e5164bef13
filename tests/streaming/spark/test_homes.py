"""Workers that swap tasks, so that each gets those of its own partition. Here they are threads, with sockets as Spark has."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from streaming.spark.homes import Homes, home_of

_LONG_S = 5.0
pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="only Linux tells who is at the other end")


def head(partition: int, name: str = "tidings", query: str = "q") -> bytes:
    said = f"{name}\nid = {query}\nrunId = r\nbatch = 1".encode()
    return partition.to_bytes(4, "big") + b"\0" * 40 + b"spark.job.description" + len(said).to_bytes(4, "big") + said


class Worker(threading.Thread):
    """Does tasks as Spark's daemon has them done, and says which it got. ``age`` orders those that ask each other."""

    def __init__(self, family: str, age: int, done: SimpleQueue[tuple[int, int]], patience_s: float = _LONG_S) -> None:
        super().__init__(daemon=True)
        self.spark, self.socket = socket.socketpair()
        self.age, self.done = age, done
        self.homes = Homes("tidings", family, os.getpid() + age, patience_s)
        self.start()

    def run(self) -> None:
        with self.socket, contextlib.suppress(ConnectionError):
            while True:
                self.homes.settle(self.socket)
                said = self.socket.recv(4096)
                if not said:
                    break
                self.done.put((self.age, int.from_bytes(said[:4], "big")))
                self.socket.sendall(b"done")
        self.homes.close()

    def end(self) -> None:
        self.spark.close()
        self.join(_LONG_S)
        assert not self.is_alive()

    def give(self, partition: int, **kind: str) -> None:
        self.spark.sendall(head(partition, **kind))


@pytest.fixture
def family() -> str:
    return f"test-{os.getpid()}-{random.random()}"


@pytest.fixture
def workers(family: str) -> Iterator[tuple[Worker, Worker, SimpleQueue[tuple[int, int]]]]:
    """Two of them, each at home in a partition: the first in 0, the second in 1."""
    done: SimpleQueue[tuple[int, int]] = SimpleQueue()
    first, second = Worker(family, -1, done), Worker(family, 1, done)
    for worker, partition in ((first, 0), (second, 1)):
        worker.give(partition)
        assert done.get(timeout=_LONG_S) == (worker.age, partition)
        assert worker.spark.recv(4) == b"done"
    yield first, second, done
    for worker in (first, second):
        worker.spark.close()  # each may end the other one: they have swapped
    first.end()
    second.end()


def test_a_task_goes_to_who_is_at_home_in_its_partition(workers):
    first, second, done = workers
    for each, partition in ((first, 1), (first, 0), (second, 0), (second, 0), (second, 1), (first, 1)):
        each.give(partition)
        assert done.get(timeout=_LONG_S) == ((-1, 0), (1, 1))[partition]
        assert each.spark.recv(4) == b"done", "Spark hears it where it gave the task"


def test_two_that_ask_each_other_swap_and_nothing_is_lost_or_done_twice(workers):
    first, second, done = workers
    chance = random.Random(7)
    for _ in range(300):
        at_first = chance.randrange(2)
        for worker, partition in ((first, at_first), (second, 1 - at_first)):
            worker.give(partition)
        assert sorted(done.get(timeout=_LONG_S) for _ in range(2)) == [(-1, 0), (1, 1)]
        assert [worker.spark.recv(4) for worker in (first, second)] == [b"done"] * 2


def test_who_is_at_home_and_busy_is_not_waited_for(family: str):
    done: SimpleQueue[tuple[int, int]] = SimpleQueue()
    worker = Worker(family, 1, done, patience_s=0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(f"\0{family}/q/1")
        busy.listen()
        worker.give(1)
        assert done.get(timeout=_LONG_S) == (1, 1)
    worker.end()


@pytest.mark.parametrize("says", [b"", b"!", b"no"])
def test_a_home_that_ends_in_the_middle_leaves_the_task_where_it_is(family: str, says: bytes):
    done: SimpleQueue[tuple[int, int]] = SimpleQueue()
    worker = Worker(family, 1, done)
    with ExitStack() as exits:
        dying = exits.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        dying.bind(f"\0{family}/q/1")
        dying.listen()
        worker.give(1)
        line, _ = dying.accept()
        assert line.recv(1) == b"?"
        line.sendall(says)
        if says == b"!":
            _, found, _, _ = socket.recv_fds(line, 1, 1)
            os.close(found[0])
        line.close()
        assert done.get(timeout=_LONG_S) == (1, 1)
    worker.end()


@pytest.mark.parametrize("says", [b"", b"x", b"?", b"?."])
def test_who_asks_and_ends_in_the_middle_harms_nobody(workers, family: str, says: bytes):
    first, _, done = workers
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(f"\0{family}/q/0")
        stranger.sendall(says)
    first.give(0)
    assert done.get(timeout=_LONG_S) == (-1, 0)
    assert first.spark.recv(4) == b"done"


def test_nobody_is_at_home_in_two_partitions_of_a_query(family: str):
    done: SimpleQueue[tuple[int, int]] = SimpleQueue()
    alone = Worker(family, 1, done)
    for partition in (0, 1, 1, 0):
        alone.give(partition)
        assert done.get(timeout=_LONG_S) == (1, partition)
        assert alone.homes.own == ("q", 0)
    alone.give(1, query="another")
    assert done.get(timeout=_LONG_S) == (1, 1)
    assert alone.homes.own == ("another", 1)
    alone.end()


def test_it_is_known_who_else_is_at_home(workers):
    first, second, done = workers
    assert [first.homes.is_elsewhere(partition) for partition in (None, 0, 1, 2)] == [False, False, True, False]
    assert [second.homes.is_elsewhere(partition) for partition in (None, 0, 1, 2)] == [False, True, False, False]
    first.give(1)  # who was only asked whether it is there, does tasks as before
    assert done.get(timeout=_LONG_S) == (1, 1)
    assert first.spark.recv(4) == b"done"


def test_tasks_of_other_queries_and_of_none_are_done_where_they_are(family: str):
    done: SimpleQueue[tuple[int, int]] = SimpleQueue()
    worker = Worker(family, 1, done)
    worker.give(1, name="tidings-windows")
    assert done.get(timeout=_LONG_S) == (1, 1)
    worker.spark.sendall(b"\0\0\0\5 and no more")
    assert done.get(timeout=_LONG_S) == (1, 5)
    assert worker.homes.own is None
    worker.end()


def test_a_description_that_is_cut_off_names_no_home():
    assert home_of(head(3), "tidings") == ("q", 3)
    for size in range(len(head(3)) - len("\nrunId = r\nbatch = 1")):
        assert home_of(head(3)[:size], "tidings") in (None, ("", 3)), size
