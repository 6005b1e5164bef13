"""The service's log does not hold what must stay secret."""

from __future__ import annotations

import logging
from pathlib import Path

from service.watch.redaction import HidingFormatter

SECRET = "3fc1" * 16


def logged(path: Path, *said: object, **more: object) -> str:
    handler = logging.FileHandler(path)
    handler.setFormatter(HidingFormatter("%(levelname)s %(message)s", [SECRET, "", "b c"]))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error(*said, **more)  # type: ignore[arg-type]
    handler.close()
    return path.read_text()


def test_a_secret_in_a_message_is_hidden(tmp_path: Path):
    assert logged(tmp_path / "log", f"xxhash64({SECRET}, topic)") == "ERROR xxhash64((hidden), topic)\n"


def test_a_secret_in_an_argument_is_hidden(tmp_path: Path):
    assert (
        logged(tmp_path / "log", "the query failed: %s", {"password": "b c"})
        == "ERROR the query failed: {'password': '(hidden)'}\n"
    )


def test_a_secret_in_a_stack_trace_is_hidden(tmp_path: Path):
    try:
        raise ValueError(f"Logical Plan: {SECRET}")
    except ValueError as error:
        text = logged(tmp_path / "log", "failed", exc_info=error)
    assert "ValueError: Logical Plan: (hidden)" in text
    assert SECRET not in text
