"""A new version of the control data: what it changes for all that is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.broker.ahead import catch_up
from streaming.broker.aside import put_event_aside, put_kept_aside
from streaming.broker.desk import Desk
from streaming.broker.handover import hand_over
from streaming.broker.pacing import reconsider_beats, reconsider_caps
from streaming.broker.progress import note_ways
from streaming.broker.state import Slot
from streaming.broker.telling import deliver, release, settle_all, tell, tell_links, tell_up, watch
from streaming.model.address import Address
from streaming.model.event import OpenEvent
from streaming.model.outputs import MessageReason, Outcome
from streaming.notify.pace import reconsider as reconsider_pace
from tidings.subscription import Subscription
from topology.plan import Place, Plan, Role
from topology.profile import Profile

_KEPT = frozenset({Role.GATHERS, Role.SPREADS})
_LEFT = frozenset({Role.PASSES, Role.GONE})


def reconsider(desk: Desk, before: Plan, now_ms: int) -> None:
    """A new version of the control data holds: apply it to all that is remembered."""
    reconsider_beats(desk)
    note_ways(desk, before)
    changes: dict[tuple[str, str], _Change] = {}
    carried, desk.state.carried = desk.state.carried, set()

    def concerns(broker: str, topic: str) -> bool:
        at = broker, topic
        changes[at] = change = _Change.between(before, desk.plan, broker, topic)
        return change.any or at in carried

    for at, slot in desk.state.slots.at(concerns):
        change = changes[at.place]
        moves = bool(slot.open) and change.now.role in _LEFT and (change.was.role in _KEPT or at.place in carried)
        with desk.touched(at, slot):
            catch_up(desk, at.broker, slot, now_ms)
            for event in slot.open:
                _reconsider(desk, event, before, change, now_ms)
            for grave in slot.closed:
                grave.ledgers = {name: ledger for name, ledger in grave.ledgers.items() if name in change.kept}
            reconsider_caps(desk, at, slot, before, now_ms)
            if moves:
                hand_over(desk, at, slot, before, now_ms)
            for event in slot.open:
                _tell_neighbours(desk, event, change, now_ms)
            if slot.ahead:
                desk.state.carried.add(at.place)
            if change.now.role is Role.GONE:
                _forget(desk, at, slot)


def _forget(desk: Desk, at: Address, slot: Slot) -> None:
    """The broker was taken out of the overlay."""
    desk.state.ending.pop(at, None)
    for event in slot.open:
        if event.owed:
            _put_owed_aside(desk, event, f"broker {at.broker!r} was taken out of the overlay")
        settle_all(event, desk.books(at.broker), Outcome.MERGED, MessageReason.UNWANTED)
    slot.open, slot.closed, slot.seen, slot.spread, slot.caps = [], [], {}, {}, {}


def _put_owed_aside(desk: Desk, event: OpenEvent, detail: str) -> None:
    put_event_aside(desk, event, MessageReason.CUT_OFF, detail, event.owed)
    desk.books(event.at.broker).left_out["cut-off"] += 1


@dataclass(frozen=True, slots=True)
class _Change:
    """What is different for a topic at a broker."""

    was: Place
    now: Place
    names: frozenset[str]
    """The subscriptions there are now."""
    changed: tuple[Subscription, ...]
    """Those that are new or have changed."""
    renewed: frozenset[str]
    """Those that were deleted and made again meanwhile: whatever their namesakes were told."""
    owed_all: bool
    """Whether somebody who cannot be reached subscribes anew."""
    any: bool

    @staticmethod
    def between(before: Plan, plan: Plan, broker: str, topic: str) -> _Change:
        at = (broker, topic)
        was, now = before.place(*at), plan.place(*at)
        had, has = before.snapshot.by_topic.get(at, ()), plan.snapshot.by_topic.get(at, ())
        same = had == has
        earlier = before.snapshot.subscriptions
        changed = () if same else tuple(s for s in has if earlier.get(s.name) != s)
        renewed = frozenset(s.name for s in changed if s.name in earlier and earlier[s.name].since != s.since)
        by_topic = plan.snapshot.by_topic
        anew = any(earlier.get(s.name) != s for away in now.cut_off for s in by_topic.get((away, topic), ()))
        names = frozenset(s.name for s in has)
        differs = not same or was != now or before.topic(topic) != plan.topic(topic)
        return _Change(was, now, names, changed, renewed, anew, differs or anew)

    @property
    def kept(self) -> frozenset[str]:
        """Subscriptions that were there before, and know what they were told."""
        return self.names - self.renewed

    @property
    def fresh(self) -> frozenset[str]:
        """Neighbours that are new, or may have forgotten what they were told."""
        return frozenset(name for name, since in self.now.since.items() if self.was.since.get(name) != since)


def _reconsider(desk: Desk, event: OpenEvent, before: Plan, change: _Change, now_ms: int) -> None:
    """One that came is told what is known, one that went is forgotten: subscriptions and neighbours alike."""
    event.ledgers = {name: ledger for name, ledger in event.ledgers.items() if name in change.kept}
    still = change.now.since.keys() - change.fresh
    event.links = {name: ledger for name, ledger in event.links.items() if name in still}
    _note_cut(desk, event, change)
    for subscription in change.changed:
        if ledger := event.ledgers.get(subscription.name):
            reconsider_pace(before.snapshot.subscriptions.get(subscription.name), subscription, ledger)
    watch(desk, event, now_ms)
    if event.released:
        told = tell(desk, event, desk.topic(event.at.topic), change.changed, now_ms)
        deliver(desk, event, told, set(), now_ms)


def _note_cut(desk: Desk, event: OpenEvent, change: _Change) -> None:
    """What somebody who cannot be reached has not been told yet; what comes from now on is kept as it comes."""
    if change.now.role is Role.GONE:
        # What is kept here leaves with all that is known, or is put aside; and whoever takes it over may not reach all.
        event.owed |= event.held_fields if change.was.role in _KEPT else set()
        return
    if not change.now.cut_off:
        if not desk.plan.overlay.links:
            # The last link is gone: brokers are separate on purpose from here on, but were not when this came.
            put_kept_aside(desk, event, "no link is left")
        elif event.owed and change.now.role is Role.PASSES:
            # The broker that gathers may have ended the event meanwhile: then nobody else knows that this was not told.
            _put_owed_aside(desk, event, "no link led there when the broker that gathers told it")
        event.kept, event.owed = [], set()
    elif change.owed_all and change.now.role is not Role.PASSES:  # the broker that gathers knows all, and says it once
        event.owed |= event.knowledge.keys()
    elif set(change.now.cut_off) - set(change.was.cut_off):
        event.owed |= event.held_fields


def _tell_neighbours(desk: Desk, event: OpenEvent, change: _Change, now_ms: int) -> None:
    topic, now = desk.topic(event.at.topic), change.now
    if now.role is Role.SPREADS:
        if change.was.role is not Role.SPREADS and event.release_ms is not None:
            release(desk, event, topic, now_ms)
        deliver(desk, event, (), tell_links(desk, event, topic, _to_know(change), now_ms), now_ms)
    elif event.released:
        links = {n: p for n, p in now.downward.items() if n in change.fresh or change.was.downward.get(n) != p}
        crossed = tell_links(desk, event, topic, links, now_ms)
        deliver(desk, event, (), crossed | tell_up(desk, event, topic, now_ms), now_ms)


def _to_know(change: _Change) -> Mapping[str, Profile]:
    """Where nobody gathers, the neighbours that are told what is known here: messages that went by are not sent once more.

    If somebody gathered until now, or can be reached again, they are all; else those who were no neighbours before.
    """
    now, was = change.now, change.was
    if was.role is not Role.SPREADS or set(was.cut_off) - set(now.cut_off):
        return now.links
    return {name: profile for name, profile in now.links.items() if name in change.fresh or name not in was.links}
