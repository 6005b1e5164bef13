"""How far what a broker knows is complete: the time up to which all that entered the overlay, wherever, has come to it.

A service says with each tick how far it is: all that its brokers were sent before that time, they have read, and written what
follows from it. Whoever has read all that was appended before the service said so has read that, too. So from a broker backwards,
link by link: of the neighbour, the last word that was said before our own clock; of the neighbour's neighbour, the last word
before the neighbour's clock; and so on. The lowest of these times is how far we are.

While brokers take up a change of the ways one after the other, messages travel by old ways and new ones. What was sent by an old
one was sent before its sender first said that it goes by the new; so nothing is sure before all have said so, and all that was
sent until then has gone on.

A broker that says nothing does not hold the others up for longer than `Rules.patience_ms`.
"""

from __future__ import annotations

from bisect import bisect_left

from streaming.broker.desk import Desk
from streaming.broker.state import NEVER, BucketState, Progress, Rules
from streaming.model.inputs import Progressed
from streaming.model.windows import Clocked
from topology.plan import Plan, Role
from topology.upstream import Sources, Upstream

MOST_SERVICES = 256
"""Beyond that, the one that was silent for longest is forgotten."""
MOST_SAID = 256
"""What is remembered of how far each service was. Longer ways than this many ticks are waited for with patience alone."""
_NOTHING = (-1, 0, 0)


def note_progress(desk: Desk, happened: Progressed) -> None:
    """A service said how far it is. Without links, or where all is handed on at once, nobody waits for anybody."""
    progress = desk.state.progress
    if not desk.plan.overlay.links or desk.rules.hands_on:
        progress.clear()
        return
    if happened.service not in progress and len(progress) >= MOST_SERVICES:
        del progress[min(progress, key=lambda name: progress[name].said[-1])]
    found = progress.get(happened.service)
    if found is None or found.brokers != happened.brokers:
        found = progress[happened.service] = Progress(happened.brokers, found.said if found else [])
    if not found.said or (happened.append_ms > found.said[-1][0] and happened.done_ms > found.said[-1][1]):
        found.said = [*found.said, (happened.append_ms, happened.done_ms, happened.version)][-MOST_SAID:]
        desk.state.changed = True


def note_ways(desk: Desk, before: Plan) -> None:
    """Other control data holds: note the topics whose messages travel otherwise from here on."""
    ways = desk.state.ways
    for topic in {*before.asked_topics, *desk.plan.asked_topics}:
        if before.layout(topic) != desk.plan.layout(topic):
            ways[topic] = desk.state.version
    for topic in ways.keys() - desk.plan.asked_topics:
        del ways[topic]


def waits(plan: Plan, at: tuple[str, str]) -> bool:
    """Whether anything about a topic comes to a broker from elsewhere."""
    return plan.sources(*at).count > 1


def reached_ms(state: BucketState, plan: Plan, at: tuple[str, str], rules: Rules) -> int:
    """All that entered before then, and is about that topic, has come to that broker; or is not waited for any longer."""
    return max(heard_ms(state, plan, at, rules), state.clock_ms - rules.patience_ms)


def heard_ms(state: BucketState, plan: Plan, at: tuple[str, str], rules: Rules) -> int:
    """All that entered before then, and is about that topic, has come to that broker; 0 if that is not known at all."""
    sources = plan.sources(*at)
    if sources.count <= 1 or rules.hands_on:
        return state.clock_ms
    if any(_last(progress, state.clock_ms)[2] > state.version for progress in state.progress.values()):
        return 0  # there are other ways, and it is not known here yet which
    if (only := _serves_all(state, sources)) is not None:
        heard = state.clock_ms
        for _ in range(sources.links):  # whoever is farther away is not farther ahead
            heard = _last(only, heard)[1]
        settled = _settled_ms(state, at[1], at[0])
    else:
        upstream = plan.upstream(*at)
        times = zip(upstream, _times(state, upstream), strict=True)
        heard = min([time_ms for each, time_ms in times if each.publishes], default=state.clock_ms)
        settled = max(_settled_ms(state, at[1], each.broker) for each in upstream) if at[1] in state.ways else 0
    return heard if heard >= settled else 0


def _serves_all(state: BucketState, sources: Sources) -> Progress | None:
    """The one service there is, if it serves all of these: then only the number of links matters."""
    if len(state.progress) != 1:
        return None
    [only] = state.progress.values()
    return only if only.brokers is None or only.brokers >= sources.brokers else None


def behind(state: BucketState, plan: Plan, at: tuple[str, str], ms: int) -> list[str]:
    """The brokers that are waited for: they have not said that they are that far, or that they go by the ways that hold here."""
    upstream = plan.upstream(*at)
    times = zip(upstream, _times(state, upstream), strict=True)
    slow = {each.broker for each, time_ms in times if each.publishes and time_ms < ms}
    return sorted(slow | {each.broker for each in upstream if _settled_ms(state, at[1], each.broker) > ms})


def _settled_ms(state: BucketState, topic: str, broker: str) -> int:
    """When a broker first said that it goes by the ways that hold here; it always did, if these are as old as we can tell."""
    if (since := state.ways.get(topic)) is None:
        return 0
    found = NEVER
    for progress in state.progress.values():
        if progress.serves(broker):
            place = bisect_left(progress.said, since, key=lambda one: one[2])
            if place < len(progress.said):
                found = min(found, progress.said[place][0])
    return found


def gathered(state: BucketState, plan: Plan, rules: Rules) -> tuple[tuple[str, str, int], ...]:
    """Brokers that gather topics for windows, and how far: every event that entered a window's length before has been offered."""
    found = []
    for topic in sorted(plan.windowed_topics):
        if plan.route(topic).manner.gathers:
            for broker in plan.overlay.brokers:
                hosted = rules.hosted is None or broker in rules.hosted
                if hosted and plan.place(broker, topic).role is Role.GATHERS:
                    found.append((broker, topic, reached_ms(state, plan, (broker, topic), rules)))
    return tuple(found)


def _times(state: BucketState, upstream: tuple[Upstream, ...]) -> list[int]:
    """How far each broker said it was, as seen from the first; 0 if it said nothing. O(brokers x services)."""
    # Brokers of a service that are equally far away are asked about the same time.
    services = [(each.brokers, each, dict[int, tuple[int, int, int]]()) for each in state.progress.values()]
    times: list[int] = []
    for each in upstream:
        if each.after is None:
            times.append(state.clock_ms)
            continue
        before_ms, latest = times[each.after], _NOTHING
        for brokers, progress, known in services:
            if brokers is None or each.broker in brokers:
                if (said := known.get(before_ms)) is None:
                    said = known[before_ms] = _last(progress, before_ms)
                if said > latest:
                    latest = said
        times.append(latest[1])
    return times


def _last(progress: Progress, before_ms: int) -> tuple[int, int, int]:
    """What a service said last, before some time."""
    place = bisect_left(progress.said, (before_ms, 0, 0))
    return progress.said[place - 1] if place else _NOTHING


def clocked(state: BucketState, plan: Plan, rules: Rules) -> Clocked:
    """What a bucket tells the pipeline of windows after a batch."""
    return Clocked(rules.bucket_index, rules.buckets, state.clock_ms, (*state.ticks, state.ticked), gathered(state, plan, rules))
