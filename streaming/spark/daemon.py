"""Spark's Python daemon, made ready before it forks workers. Spark starts it as `python -m streaming.spark.daemon`.

Spark puts archives on the path of its workers, its own jar among them, and every task has Python read their lists of files
anew; and every task ends with a search for garbage in all that was ever imported. Together they took longer than the work of a
small batch (decision 0016).
"""

from __future__ import annotations

import gc
import secrets
import socket
import sys
import time
from collections.abc import Callable

ARCHIVES = (".zip", ".jar", ".egg")
PAUSE_S = 10.0


def without_archives(path: list[str]) -> list[str]:
    """The entries of a path that are folders: pyspark and py4j are installed beside this package.

    >>> without_archives(["", "/spark/python/lib/pyspark.zip", "/spark/jars/spark-core.jar", "/site-packages"])
    ['', '/site-packages']
    """
    return [entry for entry in path if not entry.endswith(ARCHIVES)]


def prepare() -> None:
    """Leave the archives out, import what every task needs, and keep all of that out of the search for garbage."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pandas as pd  # noqa: F401
    import pyarrow as pa  # noqa: F401
    from pyspark import worker  # noqa: F401

    from streaming.spark import events  # noqa: F401

    gc.collect()
    gc.freeze()


class Leisurely:
    """Stands in for `gc` in the daemon, which has a whole search made after each task: now and then is enough."""

    _last_s = 0.0

    @classmethod
    def collect(cls) -> None:
        """Search, unless that was done a moment ago. Python's own searches would wait for far more than a batch leaves behind."""
        now_s = time.monotonic()
        if now_s - cls._last_s >= PAUSE_S:
            cls._last_s = now_s
            gc.collect()


def at_home(worker: Callable[[socket.socket, bool], int], family: str) -> Callable[[socket.socket, bool], int]:
    """What serves one task after the other, each where it is at home (`streaming.spark.homes`)."""
    from streaming.spark import homes
    from streaming.spark.pipelines import EVENTS

    def serve(spark: socket.socket, authenticated: bool) -> int:
        # The first thing that a worker hears is a password, not a task.
        if authenticated and hasattr(socket, "SO_PEERCRED"):
            homes.of_this_process(EVENTS.query, family).settle(spark)
        return worker(spark, authenticated)

    return serve


if __name__ == "__main__":
    prepare()
    from pyspark import daemon

    daemon.gc = Leisurely
    # Containers may share a network, and so the names of sockets, but not their process ids.
    daemon.worker = at_home(daemon.worker, f"tidings-{secrets.token_hex(16)}")
    daemon.manager()
