"""The one door to the pipeline of windows: `step(state, inputs, plan_at, rules) -> (state, outputs)`.

Windows close by the clock of the brokers that offer. A link's windows also wait for the neighbours that send to its broker, and
there are two ways to know how far these are: `one_process` looks it up, `several_processes` hears it from them. So a window
closes when nothing for it can come any more, however the stream was cut into batches. `docs/windows.md` tells all of it in one
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streaming.model.windows import Clocked, Offered, WindowInput, WindowOutput
from streaming.windows.adopting import adopt
from streaming.windows.closing import advance
from streaming.windows.counting import take
from streaming.windows.desk import WindowDesk
from streaming.windows.early import take_early
from streaming.windows.one_process import OneProcess
from streaming.windows.rules import WindowRules
from streaming.windows.several_processes import SeveralProcesses
from streaming.windows.state import WindowState
from topology.plan import Plan


def step(
    state: WindowState, inputs: Iterable[WindowInput], plan_at: Callable[[int], Plan], rules: WindowRules
) -> tuple[WindowState, list[WindowOutput]]:
    """Take in what was offered, in its order, and say what is to be done. The state given in is used up."""
    desk = OneProcess(state, plan_at, rules) if rules.serves_all else SeveralProcesses(state, plan_at, rules)
    for happened in inputs:
        if isinstance(happened, Clocked):
            _clocked(desk, happened)
        else:
            _offered(desk, happened)
    return state, desk.outputs


def _offered(desk: WindowDesk, happened: Offered) -> None:
    offer, state = happened.offer, desk.state
    if offer.number <= state.heard.get(happened.bucket, 0):
        return  # it was offered before a crash, too
    state.heard[happened.bucket] = offer.number
    if offer.version > state.version:
        state.early.append(offer)
    else:
        take(desk, offer)


def _clocked(desk: WindowDesk, happened: Clocked) -> None:
    """A bucket that offers said how far it is. The lowest of these times counts, and what control data held until then."""
    state = desk.state
    state.note(happened)
    lowest_ms = state.lowest_ms
    while state.versions and state.versions[0][0] <= lowest_ms:
        since_ms, version = state.versions.pop(0)
        take_early(desk, since_ms)
        advance(desk, max(since_ms, state.clock_ms))
        adopt(desk, version, since_ms)
    take_early(desk, lowest_ms)
    advance(desk, lowest_ms)
