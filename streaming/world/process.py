"""One process of a service in memory: both pipelines in one go, without Spark, for whatever moves its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from streaming.broker.progress import clocked
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books
from streaming.model.inputs import Input, Ticked
from streaming.model.outputs import Offer, Output
from streaming.model.windows import Offered, WindowDecided, WindowInput
from streaming.windows.pipeline import step as window_step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from topology.plan import Plan

ProcessOutput: TypeAlias = Output | WindowDecided


class Process:
    """A bucket that has all events of the brokers it serves, and one that has all their links.

    As long as nobody asks for windows, the second costs nothing.
    """

    __slots__ = ("_asked", "_of_windows", "_version", "events", "offers", "plan_at", "rules", "windows")

    def __init__(self, plan_at: Callable[[int], Plan], rules: Rules, service: str) -> None:
        self.plan_at = plan_at
        self.rules = rules
        self.events = BucketState()
        self.windows = WindowState()
        self.offers: Sequence[Offer] = ()
        """What was offered to windows, last."""
        self._of_windows = WindowRules(service, hosted=rules.hosted, hands_on=rules.hands_on)
        self._version = 0
        self._asked = False
        """Whether anybody has asked for windows yet."""

    def step(self, inputs: Sequence[Input]) -> list[ProcessOutput]:
        """Take in what happened, and say what is to be done by either pipeline."""
        return [output for part in _up_to_ticks(inputs) for output in self.take(part)]

    def take(self, inputs: Sequence[Input]) -> Sequence[ProcessOutput]:
        """The same for inputs that have no tick, unless at the end: windows close by the clock."""
        self.events, outputs = step(self.events, inputs, self.plan_at, self.rules)
        version = self.events.version
        if version != self._version:
            self._version, self._asked = version, self._asked or bool(self.plan_at(version).windowed_topics)
        if not self._asked:
            return outputs
        self.offers = [output for output in outputs if isinstance(output, Offer)]
        heard: list[WindowInput] = [Offered(self.rules.bucket, offer) for offer in self.offers]
        heard.append(clocked(self.events, self.plan_at(version), replace(self.rules, bucket_index=0, buckets=1)))
        self.windows, more = window_step(self.windows, heard, self.plan_at, self._of_windows)
        return [*(output for output in outputs if not isinstance(output, Offer)), *more]

    def books_of(self, broker: str) -> list[Books]:
        """What either has entered for a broker."""
        return [found for state in (self.events, self.windows) if (found := state.books.get(broker))]


def _up_to_ticks(inputs: Sequence[Input]) -> Iterator[Sequence[Input]]:
    start = 0
    for number, happened in enumerate(inputs, 1):
        if isinstance(happened, Ticked):
            yield inputs[start:number]
            start = number
    if start < len(inputs):
        yield inputs[start:]
