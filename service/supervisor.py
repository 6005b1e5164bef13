"""The query under supervision: started again after a failure that may pass, given up after one that cannot.

Starting again loses nothing: the query goes on where its checkpoint ends. Kafka may be away for longer than its clients wait; and
Spark 4.1.1 itself fails once, after it has repeated the batch that a kill interrupted (its Kafka source has no latest
offsets to report then). A Python worker that hangs fails nothing: Spark waits for it for ever. So the workers are watched too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from py4j.protocol import Py4JError

from service.watch.advice import advice_for
from tidings import names

_log = logging.getLogger("tidings.query")

_TRIES = 5
_WITHIN_S = 300.0
_LAST_READ_S = 5.0
_LOOK_S = 1.0
_AT_WORK = 0.02
"""Workers that use less of a processor than this are not at work: Spark's daemon looks around now and then."""
_OURS = re.compile(r"tidings\.errors\.\w+: (.+)")
_GAP = re.compile(r"KAFKA_DATA_LOSS|data may have been (?:lost|missed)")
_ANY = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)*\w*(?:Error|Exception): .+)", re.MULTILINE)
_REPEATED = re.compile(r'scala\.Option\.get\(\)" is null')
"""Spark's own failure after it has repeated a batch, see above: it comes when that batch has ended."""
_CAUSED = re.compile(r"^Caused by: .+", re.MULTILINE)
_PLAN = "=== Streaming Query ==="


class Workers(Protocol):
    """Spark's Python processes, as far as they can be seen from here."""

    def busy_s(self) -> float:
        """The processor time that they have used; less than before when one is gone."""

    def end(self) -> int:
        """Kill them all; returns how many that were."""


class SupervisedQuery:
    """A query that is started at once, and again when it fails.

    ``start`` starts the streaming query; its argument says whether to go on where unread records are gone.

    At most ``tries`` starts within ``within_s`` may be in vain, that is, fail before a batch ends. A gap in a link is got over:
    what was lost in it shows in the books, as the difference between what one end sent and the other received. A gap in what
    publishers sent is not. Without a ``stall`` to notice it, a query that hangs is waited for, for ever.
    """

    def __init__(
        self,
        start: Callable[[bool], Any],
        tries: int = _TRIES,
        within_s: float = _WITHIN_S,
        now_s: Callable[[], float] = time.monotonic,
        stall: Stall | None = None,
    ) -> None:
        self._start = start
        self._tries = tries
        self._within_s = within_s
        self._now_s = now_s
        self._failures: deque[float] = deque()
        self._again_s: float | None = None
        self._over_gaps = False
        self._stall = stall
        self._query = self._begin()

    def check(self) -> str | None:
        """Start the query again if it is time to; the cause in one line when there is nothing left to try."""
        now_s = self._now_s()
        if self._again_s is not None:
            if now_s >= self._again_s:
                self._again_s = None
                self._query = self._begin()
            return None
        error = self._query.exception()
        if error is None:
            if self._stall is not None:
                self._stall.look(now_s, lambda: self._query.lastProgress)
            return None
        return self._failed(words_of(error), now_s)

    def _begin(self) -> Any:
        try:
            return self._start(self._over_gaps)
        except Exception as error:  # Spark reads some files, and asks Kafka, before there is a query that could fail
            return _Unstarted(words_of(error))

    def _failed(self, text: str, now_s: float) -> str | None:
        """Plan the next start; or say why there is none."""
        cause = cause_of(text)
        if not self._got_further(text):
            self._failures.append(now_s)
        while self._failures and self._failures[0] < now_s - self._within_s:
            self._failures.popleft()
        if _OURS.search(text) or len(self._failures) > self._tries:
            _log.error("the query failed: %s", text)
            return f"{advice} ({cause})" if (advice := advice_for(text)) else cause
        self._over_gaps = _GAP.search(text) is not None and names.names_a_link(text)
        if self._over_gaps:
            _log.error("records of a link are gone before they were read; the query goes on without them: %s", cause)
        pause_s = 0.5 * 2 ** max(0, len(self._failures) - 1)
        _log.warning("the query failed and is started again in %.1f s: %s", pause_s, cause)
        self._again_s = now_s + pause_s
        return None

    def _got_further(self, text: str) -> bool:
        """Whether a batch ended since the last start: then that start was not in vain."""
        return self._query.lastProgress is not None or _REPEATED.search(text) is not None

    @property
    def is_active(self) -> bool:
        return self._again_s is None and bool(self._query.isActive)

    @property
    def read_up_to(self) -> dict[str, int]:
        """By Kafka partition, the offset up to which all has been read, and all that follows from it written."""
        try:
            progress = self.last_progress
            return ends_of(progress.json) if progress else {}
        except (Py4JError, OSError):
            return {}  # Spark is going
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            _log.error("nobody is told how far the query is: its progress cannot be read (%s)", error)
            return {}

    @property
    def last_progress(self) -> Any:
        return self._query.lastProgress

    def stop(self) -> None:
        """Read what is there, for a moment, then stop.

        A backlog is left for the next start; but a service that was idle leaves nothing unread which Kafka might delete before.
        Whoever ends a service may have ended Spark with it, as a signal to all processes of a group does: that is a stop too.
        """
        try:
            if self.is_active:
                reading = threading.Thread(target=self._read_what_is_there, daemon=True)
                reading.start()
                reading.join(_LAST_READ_S)
            self._query.stop()
        except (Py4JError, OSError):
            _log.warning("Spark was gone before the query was stopped; the next start repeats the batch that was under way")

    def _read_what_is_there(self) -> None:
        # Stopping the query ends the waiting with an error that nobody is interested in any more.
        with contextlib.suppress(Exception):
            self._query.processAllAvailable()


def ends_of(progress: str) -> dict[str, int]:
    """What Spark says of a batch as JSON: by partition, the offsets of Kafka up to which it read. Nothing before the first batch.

    Not what PySpark makes of it: there, offsets are the text of a Python dict.

    >>> ends_of('{"sources": [{"endOffset": {"publish.b1": {"0": 17, "1": 4}}}]}')
    {'publish.b1-0': 17, 'publish.b1-1': 4}
    """
    [source] = json.loads(progress)["sources"]
    found = source["endOffset"] or {}
    return {names.partition_name(topic, int(number)): end for topic, ends in found.items() for number, end in ends.items()}


class _Unstarted:
    """A query that failed before it ran."""

    isActive = False  # noqa: N815
    lastProgress = None  # noqa: N815

    def __init__(self, text: str) -> None:
        self._text = text  # taken at once: Spark's errors ask its Java machine for their words, which may be gone later

    def exception(self) -> Exception:
        return Exception(self._text)

    def stop(self) -> None:
        """There is nothing to stop."""


class Stall:
    """Notices that nothing moves any more, though there is something to read: a sound query reads every tick.

    A long batch alone is no stall: after hours of downtime the first one may take minutes, with the workers hard at work. When
    Kafka is what stands still, ending idle workers does no harm: Spark forks new ones when it has work for them.
    ``stall_s`` is how long no batch may end while ``workers`` do nothing, though something has been ``unread_s`` for as long.
    """

    def __init__(self, workers: Workers, stall_s: float, unread_s: Callable[[], float], now_s: float | None = None) -> None:
        self._workers = workers
        self._unread_s = unread_s
        self._stall_s = stall_s
        self._looked_s = self._moved_s = time.monotonic() if now_s is None else now_s
        self._batch: object = None
        self._busy_s = 0.0

    def look(self, now_s: float, progress: Callable[[], Any]) -> None:
        """End the workers if it is time to: then the batch fails, and the query with it, and is started again."""
        passed_s = now_s - self._looked_s
        if passed_s < _LOOK_S:
            return
        last = progress()
        batch = last and (last["runId"], last["batchId"], last["timestamp"])
        busy_s = self._workers.busy_s()
        at_work = abs(busy_s - self._busy_s) > _AT_WORK * passed_s
        if batch != self._batch or at_work:
            self._moved_s = now_s
        self._looked_s, self._batch, self._busy_s = now_s, batch, busy_s
        if now_s - self._moved_s >= self._stall_s and self._unread_s() >= self._stall_s:
            self._moved_s = now_s
            ended = self._workers.end()
            _log.error("no batch ended for %.0f s and nobody is at work: %d Python workers are ended", self._stall_s, ended)


def words_of(error: BaseException) -> str:
    """What an error and its causes say, without the plan of the query: that names every word one might look for."""
    said: list[str] = []
    cause: Any = error
    while cause is not None and len(said) < 20:
        said.append(str(getattr(cause, "_desc", None) or cause).partition(_PLAN)[0].rstrip())
        said += _CAUSED.findall(getattr(cause, "_stackTrace", None) or "")
        cause = getattr(cause, "_cause", None)
    return "\n".join(dict.fromkeys(said))


def cause_of(text: str) -> str:
    """The one line of a Spark failure that says what happened: ours if there is one, else the innermost cause."""
    # Where Python's own trace begins is no cause; where it ends is.
    errors = [line for line in _ANY.findall(text) if not line.endswith("(most recent call last):")]
    found = _OURS.findall(text) or errors[-1:] or text.strip().splitlines() or ["no reason given"]
    return str(found[0])[:300]
