"""The one door to what a broker does: `step(state, inputs, plan_at, rules) -> (state, outputs)`.

Time comes in with the inputs. Before a message is joined to its event, the event's timers up to the message's append time
fire, each at its own time; marks make the same timers fire in silence. So what is decided follows from the log alone, not from
where the stream was cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streaming.broker.ahead import must_wait
from streaming.broker.desk import Desk
from streaming.broker.handover import hear_hand_over
from streaming.broker.hearing import hear_news
from streaming.broker.offering import hear_window
from streaming.broker.pacing import note_beats
from streaming.broker.passing import arrived, arrived_again, arrived_early
from streaming.broker.progress import note_progress
from streaming.broker.replanning import reconsider
from streaming.broker.state import BucketState, Rules
from streaming.broker.timers import pass_time, time_passed
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Refused, Ticked
from streaming.model.links import EventNews, HandOver, WindowRecord
from streaming.model.outputs import Output
from topology.plan import Plan

MOST_TICKS = 64
"""This many changes of the control data in one batch are told apart."""


def step(
    state: BucketState, inputs: Sequence[Input], plan_at: Callable[[int], Plan], rules: Rules
) -> tuple[BucketState, list[Output]]:
    """Take in what happened, in the order it happened, and say what is to be done. The state given in is used up.

    ``plan_at`` gives the plan of a version of the control data.
    """
    start(state, inputs)
    desk = Desk(state, plan_at, rules)
    for happened in inputs:
        take(desk, happened)
        while desk.handed:
            take(desk, desk.handed.popleft())
        finish(desk, happened)
    return state, desk.outputs


def start(state: BucketState, inputs: Iterable[Input]) -> None:
    """A bucket that has never seen a tick takes the first one's control data for what came before it.

    One that has seen a tick or a mark has its control data, even if that is the empty one of version 0: what it takes up then, it
    takes up as a change, wherever the batch was cut.
    """
    if state.version == 0 and not state.partitions and not state.marks:
        state.version = next((i.version for i in inputs if isinstance(i, Ticked | Marked) and i.version is not None), 0)
        state.changed = state.changed or state.version > 0


def take(desk: Desk, happened: Input) -> OpenEvent | None:
    """Take in one thing that happened. Returns the event that a publication was joined to.

    What brokers send each other then is taken in next (`Desk.handed`), and when there is no more of that, `finish` follows.
    """
    if not _is_new(desk, happened):
        return None
    match happened:
        case Arrived() if must_wait(desk, happened):
            arrived_early(desk, happened)
        case Arrived():
            return arrived(desk, happened)
        case Heard(record=EventNews() as news):
            hear_news(desk, happened, news)
        case Heard(record=HandOver() as handed):
            hear_hand_over(desk, happened, handed)
        case Heard(record=WindowRecord() as sent):
            hear_window(desk, happened, sent)
        case Refused():
            desk.put_aside(happened.origin, happened.broker, happened.reason, happened.detail)
        case Marked():
            _marked(desk, happened)
        case Ticked():
            _ticked(desk, happened)
        case Progressed():
            note_progress(desk, happened)
    return None


def finish(desk: Desk, happened: Input) -> None:
    """All that follows from it has come where it goes: if time has passed, events are over that waited for that."""
    if isinstance(happened, Marked | Ticked):
        time_passed(desk)
        arrived_again(desk)


def _is_new(desk: Desk, happened: Input) -> bool:
    """Count what came. False if it came before: a neighbour that was interrupted sends some records again."""
    if isinstance(happened, Arrived | Heard | Refused):
        desk.state.changed = True
    if isinstance(happened, Arrived | Heard) and desk.heard_before(happened):
        return False
    if isinstance(happened, Arrived | Refused):
        desk.books(happened.broker).received += 1
    return True


def _marked(desk: Desk, mark: Marked) -> None:
    if mark.version is not None:
        _adopt(desk, mark.version, mark.append_ms)
    if mark.append_ms > desk.state.marks.get(mark.partition, 0):
        desk.state.marks[mark.partition] = mark.append_ms
        # Kept even if nothing else happens: a batch that is run again after a crash must begin with the same clock, or it
        # sends other records under the same numbers.
        desk.state.changed = True
    pass_time(desk)


def _ticked(desk: Desk, tick: Ticked) -> None:
    state = desk.state
    state.partitions = tick.partitions
    state.marks = {p: ms for p, ms in state.marks.items() if p in tick.partitions}
    _adopt(desk, tick.version, tick.append_ms)
    if tick.version > state.ticked[0]:
        state.ticks = [*state.ticks, state.ticked][-MOST_TICKS:]
        state.ticked = (tick.version, tick.append_ms)
        state.changed = True
    for broker in desk.plan.overlay.brokers if desk.rules.hosted is None else desk.rules.hosted:
        if desk.plan.has(broker):
            state.books_of(broker)  # empty books are told too: nothing received is news to a person who looks
    if desk.plan.snapshot.beating:
        note_beats(desk, tick)
    pass_time(desk)


def _adopt(desk: Desk, version: int, now_ms: int) -> None:
    """From here on this version of the control data holds, unless a later one does already."""
    state = desk.state
    if version <= state.version:
        return
    before, desk.plan = desk.plan, desk.plan_at(version)
    state.version = version
    state.changed = True
    reconsider(desk, before, now_ms)
    arrived_again(desk)
    state.wake_ms = 0  # windows and cadences may have become shorter
