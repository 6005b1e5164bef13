"""Every partition of a query has a home: the worker that keeps its buckets at hand, and gets its tasks.

Spark gives a task to whichever Python worker is free, so each worker would come to hold all buckets, and to read over and over
what the other one changed (decision 0025). Here a worker looks at a task before it takes it. Is it at home elsewhere, the two
workers swap the sockets by which Spark speaks to them, the task still unread in its own. Who is at home listens while it waits
for work; who does not answer at once is busy, and the task is done where it is. So nothing depends on this but time and memory.

An exchange goes in four steps, and until the last two no socket has changed hands: "may I" and "go ahead" have nothing with them.
Whoever ends in between leaves the other with the socket it had.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from typing import Final, TypeAlias

Home: TypeAlias = tuple[str, int]
"""The id of a query, and one of its partitions."""

PATIENCE_S: Final = 0.01
_TRIES = 3
_HEAD_BYTES = 64 * 1024
_DESCRIBED = b"spark.job.description"
_ID = "\nid = "
_MAY_I, _GO_AHEAD, _HERE = b"?", b"!", b"."
_CREDENTIALS = struct.Struct("3i")


def home_of(head: bytes, query: str) -> Home | None:
    """Where a task is at home, from what Spark says first: its partition, and later on what it is for. None if it is for no batch
    of this query, or does not say so soon.

    >>> said = b"events" + _ID.encode() + b"5-1" + b"\\nbatch = 7"
    >>> home_of(bytes([0, 0, 0, 3]) + b"..." + _DESCRIBED + len(said).to_bytes(4, "big") + said + b"...", "events")
    ('5-1', 3)
    """
    at = head.find(_DESCRIBED)
    if at < 0:
        return None
    at += len(_DESCRIBED)
    size = int.from_bytes(head[at : at + 4], "big")
    name, _, rest = head[at + 4 : at + 4 + size].decode(errors="replace").partition(_ID)
    return (rest.split("\n")[0], int.from_bytes(head[:4], "big")) if name == query and rest else None


class Homes:
    """What one worker knows of the homes for a ``query``. ``me`` is its process id; those of one ``family`` find each other, if
    they are of one user."""

    def __init__(self, query: str, family: str, me: int, patience_s: float = PATIENCE_S) -> None:
        self._query, self._family, self._me, self._patience_s = query, family, me, patience_s
        self.own: Home | None = None
        self._door: socket.socket | None = None
        self._gave_way = False
        """Whether, of two that asked each other, this one let the other have its task before its own was answered."""

    def settle(self, spark: socket.socket) -> None:
        """Wait for a task. When this returns, one waits in ``spark``: one that is at home here, if that can be had."""
        for _ in range(_TRIES):
            self._wait(spark)
            try:
                head = spark.recv(_HEAD_BYTES, socket.MSG_PEEK)
            except OSError:
                return  # whoever reads on finds out that Spark has gone
            home = home_of(head, self._query)
            if home is None or home == self.own or not self._ask(home, spark):
                return

    def _wait(self, spark: socket.socket) -> None:
        """Until there is a task, or Spark has gone. Meanwhile others may have it in exchange for theirs."""
        while True:
            ready = select.select([spark, *([self._door] if self._door else [])], [], [])[0]
            if self._door in ready:
                self._answer(spark)
            elif ready:
                return

    def close(self) -> None:
        """Be at home no more."""
        if self._door is not None:
            self._door.close()
        self.own = self._door = None

    def is_elsewhere(self, partition: int | None) -> bool:
        """Whether another worker is at home in a partition of the query that this one is at home in."""
        if self.own is None or partition is None or partition == self.own[1]:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, contextlib.suppress(OSError):
            line.settimeout(self._patience_s)
            line.connect(self._address((self.own[0], partition)))
            return True
        return False

    # ---- the one that asks --------------------------------------------------------------------------------------------

    def _ask(self, home: Home, spark: socket.socket) -> bool:
        """Offer a task to where it is at home. True if there is another socket now, which has to be looked at."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(self._patience_s)
            try:
                line.connect(self._address(home))
            except ConnectionRefusedError:
                self._move_in(home)
                return False
            except OSError:
                return False
            if not _is_ours(line) or not self._may(line, spark):
                return False
            if self._gave_way:
                return True
            line.settimeout(None)  # from here on, the other one waits too: it answers, or it has ended
            with contextlib.suppress(OSError):
                socket.send_fds(line, [_HERE], [spark.fileno()])
                return _receive(line, spark)
        return False

    def _may(self, line: socket.socket, spark: socket.socket) -> bool:
        """Whether the other one is there and willing. Of two that ask each other, the later born gives way."""
        self._gave_way = False
        with contextlib.suppress(OSError):
            line.sendall(_MAY_I)
            while ready := select.select([line, *([self._door] if self._door else [])], [], [], self._patience_s)[0]:
                if line in ready:
                    return line.recv(1) == _GO_AHEAD
                if _peer(line) > self._me:
                    ready = select.select([line], [], [], self._patience_s)[0]
                    return bool(ready) and line.recv(1) == _GO_AHEAD
                line.close()
                self._gave_way = self._answer(spark)
                return self._gave_way
        return False

    def _move_in(self, home: Home) -> None:
        """Be at home where nobody is; but only once for a query, or one worker would have all of its tasks."""
        if self.own is not None and self.own[0] == home[0]:
            return
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(self._address(home))
            door.listen()
        except OSError:  # somebody else was first
            door.close()
            return
        self.close()
        self.own, self._door = home, door

    def _address(self, home: Home) -> str:
        # In Linux's own space of names, where nothing is left behind.
        return f"\0{self._family}/{home[0]}/{home[1]}"

    # ---- the one that is asked ----------------------------------------------------------------------------------------

    def _answer(self, spark: socket.socket) -> bool:
        """Let somebody in, and exchange sockets. False if it came to nothing."""
        assert self._door is not None
        line, _ = self._door.accept()
        with line, contextlib.suppress(OSError):
            line.settimeout(self._patience_s)
            if not _is_ours(line) or line.recv(1) != _MAY_I:
                return False
            line.settimeout(None)
            line.sendall(_GO_AHEAD)
            ours = os.dup(spark.fileno())
            try:
                if not _receive(line, spark):
                    return False
                try:
                    socket.send_fds(line, [_HERE], [ours])
                except OSError:
                    os.dup2(ours, spark.fileno())  # it has ended: Spark finds out, as this was its last hold on that task
                    return False
                return True
            finally:
                os.close(ours)
        return False


def _receive(line: socket.socket, spark: socket.socket) -> bool:
    """Put what comes over the line in the place of a socket; False if nothing does."""
    said, found, _, _ = socket.recv_fds(line, 1, 1)
    if said != _HERE or not found:
        return False
    os.dup2(found[0], spark.fileno())
    os.close(found[0])
    return True


def _peer(line: socket.socket) -> int:
    """The process at the other end."""
    pid, _, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)


def _is_ours(line: socket.socket) -> bool:
    """Whether the other end belongs to the same user: the space of names is open to all."""
    _, user, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.getuid())


_here: list[Homes] = []


def of_this_process(query: str, family: str) -> Homes:
    """What this worker knows."""
    if not _here:
        _here.append(Homes(query, family, os.getpid()))
    return _here[0]


def is_elsewhere(partition: int | None) -> bool:
    """Whether another worker has the buckets of a partition at hand, and this one those of its own."""
    return bool(_here) and _here[0].is_elsewhere(partition)
