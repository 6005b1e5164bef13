"""The query under supervision: started again after a failure that may pass, given up after one that cannot.

Starting again loses nothing: the query goes on where its checkpoint ends. Kafka may be away for longer than its clients wait; and
Spark 4.1.1 itself fails once, after it has repeated the batch that a kill interrupted (its Kafka source has no latest
offsets to report then).
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("tidings.query")

_TRIES = 5
_WITHIN_S = 300.0
_LAST_READ_S = 5.0
_OURS = re.compile(r"tidings\.errors\.\w+: (.+)")
_GAP = re.compile(r"KAFKA_DATA_LOSS|data may have been (?:lost|missed)")
_LINK = re.compile(r"\blink\.[\w-]+\.[\w-]+")
_ANY = re.compile(r"^(?:[\w$]+\.)*\w*(?:Error|Exception): .+", re.MULTILINE)


class SupervisedQuery:
    """``start`` starts the streaming query; its argument says whether to go on where unread records are gone.

    At most so many failures within so much time are got over. A gap in a link is: what was lost in it shows in the books, as the
    difference between what one end sent and the other received. A gap in what publishers sent is not.
    """

    def __init__(
        self,
        start: Callable[[bool], Any],
        tries: int = _TRIES,
        within_s: float = _WITHIN_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._tries = tries
        self._within_s = within_s
        self._now_s = now_s
        self._failures: deque[float] = deque()
        self._again_s: float | None = None
        self._over_gaps = False
        self._query = start(False)

    def check(self) -> str | None:
        """Start the query again if it is time to; the cause in one line when there is nothing left to try."""
        if self._again_s is not None:
            if self._now_s() >= self._again_s:
                self._again_s = None
                self._query = self._start(self._over_gaps)
            return None
        error = self._query.exception()
        if error is None:
            return None
        text = str(error)
        cause = cause_of(text)
        now_s = self._now_s()
        self._failures.append(now_s)
        while self._failures[0] < now_s - self._within_s:
            self._failures.popleft()
        if _OURS.search(text) or len(self._failures) > self._tries:
            _log.error("the query failed: %s", text)
            return cause
        self._over_gaps = _GAP.search(text) is not None and _LINK.search(text) is not None
        if self._over_gaps:
            _log.error("records of a link are gone before they were read; the query goes on without them: %s", cause)
        pause_s = 0.5 * 2 ** (len(self._failures) - 1)
        _log.warning("the query failed and is started again in %.1f s: %s", pause_s, cause)
        self._again_s = now_s + pause_s
        return None

    @property
    def is_active(self) -> bool:
        return self._again_s is None and bool(self._query.isActive)

    @property
    def last_progress(self) -> Any:
        return self._query.lastProgress

    def stop(self) -> None:
        """Read what is there, for a moment, then stop.

        A backlog is left for the next start; but a service that was idle leaves nothing unread which Kafka might delete before.
        """
        if self.is_active:
            reading = threading.Thread(target=self._read_what_is_there, daemon=True)
            reading.start()
            reading.join(_LAST_READ_S)
        self._query.stop()

    def _read_what_is_there(self) -> None:
        # Stopping the query ends the waiting with an error that nobody is interested in any more.
        with contextlib.suppress(Exception):
            self._query.processAllAvailable()


def cause_of(text: str) -> str:
    """The one line of a Spark failure that says what happened: ours if there is one, else the innermost cause."""
    found = _OURS.findall(text) or _ANY.findall(text)[-1:] or text.strip().splitlines() or ["no reason given"]
    return str(found[0])[:300]
