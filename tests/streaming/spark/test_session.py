"""Ctrl-C while Spark starts."""

from __future__ import annotations

import signal
import weakref

import pytest

from streaming.spark.session import interruptible


class Thing:
    """Something that can be forgotten."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_could_only_print_is_raised_again():
    reached = []

    def start() -> None:
        with interruptible():
            thing = Thing()
            kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
            del thing  # the interrupt comes in here, and is lost
            reached.append(kept)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert len(reached) == 1


def test_what_was_raised_is_raised_once_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)

    def start(error: type[BaseException] | None = None) -> None:
        with interruptible():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        start(KeyboardInterrupt)
    start()
    assert signal.getsignal(signal.SIGINT) is before
