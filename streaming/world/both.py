"""Both pipelines in one go, without Spark: for replays, dry runs and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from streaming.broker.progress import clocked
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books
from streaming.model.inputs import Input, Ticked
from streaming.model.items import Publication
from streaming.model.outputs import Offer, Output
from streaming.model.windows import Offered, WindowDecided, WindowInput
from streaming.windows.pipeline import step as side_step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from topology.plan import Plan

BothOutput: TypeAlias = Output | WindowDecided


@dataclass
class Both:
    """A bucket that has all events, and one that has all links."""

    plan_at: Callable[[int], Plan]
    rules: Rules
    service: str
    main: BucketState = field(default_factory=BucketState)
    side: WindowState = field(default_factory=WindowState)
    counted: set[tuple[str, str]] = field(default_factory=set)
    """What was offered to windows: the topic, and the id of the message or the event."""

    def step(self, inputs: Sequence[Input]) -> list[BothOutput]:
        """Take in what happened, and say what is to be done by either."""
        found: list[BothOutput] = []
        for part in _up_to_ticks(inputs):
            self.main, outputs = step(self.main, part, self.plan_at, self.rules)
            found += [output for output in outputs if not isinstance(output, Offer)]
            if self.main.version and (self.side.version or self.plan_at(self.main.version).windowed_topics):
                found += self._beside([output for output in outputs if isinstance(output, Offer)])
        return found

    def books_of(self, broker: str) -> list[Books]:
        """What either has entered for a broker."""
        return [found for state in (self.main, self.side) if (found := state.books.get(broker))]

    def _beside(self, offers: list[Offer]) -> list[BothOutput]:
        self.counted |= {(offer.topic, offer.item.id) for offer in offers if isinstance(offer.item, Publication)}
        inputs: list[WindowInput] = [Offered(self.rules.bucket, offer) for offer in offers]
        inputs.append(clocked(self.main, self.plan_at(self.main.version), replace(self.rules, bucket_index=0, buckets=1)))
        rules = WindowRules(self.service, hosted=self.rules.hosted)
        self.side, outputs = side_step(self.side, inputs, self.plan_at, rules)
        return list(outputs)


def _up_to_ticks(inputs: Sequence[Input]) -> Iterator[Sequence[Input]]:
    """Windows close by the clock, so it is looked at after every tick."""
    start = 0
    for number, happened in enumerate(inputs, 1):
        if isinstance(happened, Ticked):
            yield inputs[start:number]
            start = number
    if start < len(inputs):
        yield inputs[start:]
