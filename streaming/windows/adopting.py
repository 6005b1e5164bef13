"""Other control data holds: places come and go, and windows that are open where ways change are given up."""

from __future__ import annotations

from streaming.windows.deciders import decider
from streaming.windows.desk import WindowDesk
from streaming.windows.link import LinkWindows
from streaming.windows.local import LocalWindows
from streaming.windows.places import places_of, ways
from streaming.windows.state import At, LinkState, OpenWindows
from topology.plan import LOCAL, Plan


def adopt(desk: WindowDesk, version: int, now_ms: int) -> None:
    """That version holds from now on."""
    before, state = desk.plan, desk.state
    desk.turn_to(version)
    wanted = set(places_of(desk.plan, desk.rules))
    for at in state.links.keys() - wanted:
        del state.links[at]
    for at in sorted(wanted):
        links = state.links.get(at)
        if links is None:
            links = state.links[at] = LinkState(_windows(desk.plan, at), through_ms=state.clock_ms)
        elif ways(before, at) != ways(desk.plan, at):
            give_up(desk, at, links)
            links.since, links.upstream, links.said = {}, {}, {}
        if isinstance(links.windows, LinkWindows):
            links.windows.choose(desk.plan.decider(*at))
        links.whole = None
        _go_by_interests(links, set(desk.subscriptions(at)), now_ms)
    desk.put_in_order()


def give_up(desk: WindowDesk, at: At, links: LinkState) -> None:
    """Drop all windows that are open at a place."""
    desk.state.books_of(at[0]).left_out["given-up"] += links.windows.drop(frozenset(links.since))


def _windows(plan: Plan, at: At) -> OpenWindows:
    return LocalWindows() if at[1] == LOCAL else LinkWindows(decider(plan.decider(*at)))


def _go_by_interests(links: LinkState, now: set[str], now_ms: int) -> None:
    """These are asked for from now on: those that were before, as they were."""
    gone = links.since.keys() - now
    links.windows.drop(frozenset(gone))
    # Only those that were here: a neighbour may know of others before this broker does.
    for up in links.upstream.values():
        up.since = {interest: ms for interest, ms in up.since.items() if interest not in gone}
    links.since = {interest: links.since.get(interest, now_ms) for interest in sorted(now)}
    links.said = {interest: ms for interest, ms in links.said.items() if interest in now}
