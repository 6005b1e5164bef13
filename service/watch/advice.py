"""What to do about failures that Spark tells in a page of Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

DECIDE_ANEW = (
    "put back a copy of the directory, or move `checkpoint` (and `state`, if there is one) out of it and start again: "
    "then all that Kafka still holds is decided anew, with the same ids"
)

# The first that fits counts. A full disk shows as a state that cannot be loaded too, so the causes come before the effects.
_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        r"No space left on device|Disk quota exceeded|ENOSPC": (
            "the disk is full: make room for the service's directory and start again, nothing is lost"
        ),
        r"Permission denied|Read-only file system": (
            "the service's directory cannot be written: give its user the right to and start again"
        ),
        r"OutOfMemoryError|GC overhead limit": (
            "Spark's Java machine ran out of memory: raise spark.driver_memory, or lower spark.max_offsets_per_trigger"
        ),
        r"KAFKA_DATA_LOSS|data may have been (?:lost|missed)": (
            "Kafka no longer holds messages that were not read yet, so they are lost: to go on without them, move `checkpoint` "
            "(and `state`, if there is one) out of the directory and start again"
        ),
        r"CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE_CHECKSUM|STATE_STORE_CHECKPOINT|MISSING_METADATA|MALFORMED_LOG_FILE|"
        r"Incomplete log file|ChecksumException|JsonParseException|Unexpected end-of-input|"
        r"tidings\.errors\.BadState: (?!the control data)": (f"what the service remembers is damaged: {DECIDE_ANEW}"),
        r"TimeoutException|DisconnectException|Connection to node|BrokerNotAvailable|No resolvable bootstrap": (
            "Kafka did not answer for too long: see whether it runs and start again, nothing is lost"
        ),
        r"Python worker exited unexpectedly|Python worker failed to connect": (
            "Spark's Python workers keep dying: see whether the machine runs out of memory"
        ),
    }
)


def advice_for(text: str) -> str | None:
    """What happened and what to do, in one sentence; None for a failure that nobody knows."""
    return next((advice for pattern, advice in _ADVICE.items() if re.search(pattern, text)), None)
