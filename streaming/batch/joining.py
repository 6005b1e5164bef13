"""An event of the usual kind, while the messages of a batch about it are joined to it.

For each message what `streaming.broker.gathering` does, on a `Brief`. Nothing is done anywhere else until all of them have been
joined: if one of them is unusual, the event stays as it was. This is where most of the engine's time goes, so each function does
one thing from beginning to end.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.batch.brief import Brief, BriefLedger
from streaming.batch.ground import Ground
from streaming.batch.report import Report
from streaming.broker.state import Rules
from streaming.model.outputs import WrittenTell
from streaming.wire.notification import Usual, encode_usual
from tidings import names
from tidings.notification import Reason, notification_id
from tidings.registers import Join
from tidings.subscription import Subscription
from tidings.values import Value, sort_key


class Joining:
    """What became of the event so far, and what is to be done for that."""

    __slots__ = (*("brief", "conflicts", "disputed", "news", "settled", "told"), *("_by", "_ground", "_rules", "_until_ms"))

    def __init__(self, brief: Brief, ground: Ground, rules: Rules, until_ms: int) -> None:
        self.brief, self._ground, self._rules, self._until_ms = brief, ground, rules, until_ms
        self._by = dict(zip(brief.facts, brief.claims, strict=True))
        self.news = self.disputed = self.conflicts = 0
        """How many messages had news; how many had none and disputed something; and how many values are new in dispute."""
        self.told: list[tuple[Reason, WrittenTell]] = []
        self.settled: list[tuple[Reason, int]] = []
        """Why what was held was told, and how many messages that were."""

    def join(self, report: Report) -> bool:
        """Join one message. False if it is unusual: then nothing of all this is to be used."""
        brief, by, ground, published_ms = self.brief, self._by, self._ground, report.published_ms
        facts, said, fields = brief.facts, brief.said, report.message.fields
        if ground.joins and any(ground.topic.join_of(name) is Join.UNION for name in fields):
            return False
        new: dict[str, Value] = {}
        changed: list[str] = []
        conflicts = self.conflicts
        for name, value in fields.items():
            if name not in facts:
                new[name] = value
                continue
            known = facts[name]
            repeats = type(value) is type(known) and value == known
            if not (repeats and said[by[name]][0] < published_ms) and not self._meets(name, value, report, changed):
                return False
        if new:
            if len(facts) + len(new) > self._rules.event_fields or not ground.takes(new, self._rules.bounds.conflicts):
                return False
            facts.update(new)
            by.update(dict.fromkeys(new, self._number(report)))
            if ground.joins:
                kinds = {name: kind for name in new if (kind := ground.topic.join_of(name)) is not Join.FIRST}
                brief.kinds.update(kinds)
        elif not changed:
            self.disputed += self.conflicts > conflicts
            return True
        self.news += 1
        return self._lets_leave([*new, *changed], changed, report)

    def finish(self, reports: int, sources: int, first_ms: int, last_ms: int) -> None:
        """All of the batch has been joined: so many reports, from so many sources that are new, of these published times."""
        brief, by = self.brief, self._by
        brief.reports += reports
        brief.sources += sources
        if first_ms < brief.first_ms:
            brief.first_ms = first_ms
        if last_ms > brief.last_ms:
            brief.last_ms = last_ms
        brief.claims = list(by.values())
        if len(brief.said) > len(by) and len(brief.said) > len(by) + sum(map(len, brief.rivals.values())):
            self._forget_unbelieved()

    # ---- what is known ------------------------------------------------------------------------------------------------

    def _meets(self, name: str, value: Value, report: Report, changed: list[str]) -> bool:
        """A field that somebody has stated. False if that is to be looked at as `registers.join` does."""
        brief, said = self.brief, self.brief.said[self._by[name]]
        known = brief.facts[name]
        if type(value) is type(known) and value == known:
            # Of two that say the same, the earlier one is believed.
            mine = report.published_ms, report.message_id
            if mine == said[:2]:
                return report.message.source == said[2]
            if mine < said[:2]:
                self._by[name] = self._number(report)
            return True
        kind = brief.kinds.get(name, Join.FIRST)
        if kind is Join.FIRST:
            return self._disputes(name, value, report)
        order, other = sort_key(known), sort_key(value)
        if order == other:
            return False
        if (other < order) is (kind is Join.MIN):
            brief.facts[name] = value
            self._by[name] = self._number(report)
            changed.append(name)
        return True

    def _disputes(self, name: str, value: Value, report: Report) -> bool:
        """Another value of a field that keeps the first one: it loses, if it is the later one."""
        brief, said, mine = self.brief, self.brief.said, (report.published_ms, report.message_id)
        rivals = brief.rivals.get(name, [])
        fact = sort_key(value)
        if mine <= said[self._by[name]][:2] or fact == sort_key(brief.facts[name]):
            return False
        for rival, by in rivals:
            if sort_key(rival) == fact:
                return said[by][:2] < mine
        if len(rivals) + 1 >= self._rules.bounds.conflicts or any(said[by][:2] == mine for _, by in rivals):
            return False
        rivals = [*rivals, (value, self._number(report))]
        brief.rivals[name] = sorted(rivals, key=lambda rival: said[rival[1]][:2])
        self.conflicts += 1
        return True

    def _number(self, report: Report) -> int:
        """That of the report among those that are believed."""
        said, mine = self.brief.said, (report.published_ms, report.message_id, report.message.source)
        if not said or said[-1] != mine:
            said.append(mine)
        return len(said) - 1

    def _forget_unbelieved(self) -> None:
        """Some reports were believed before, and are not any more."""
        brief, number_of = self.brief, dict[int, int]()
        brief.claims = [number_of.setdefault(number, len(number_of)) for number in brief.claims]
        brief.rivals = {
            name: [(value, number_of.setdefault(number, len(number_of))) for value, number in rivals]
            for name, rivals in brief.rivals.items()
        }
        brief.said = [brief.said[number] for number in number_of]

    # ---- what leaves --------------------------------------------------------------------------------------------------

    def _lets_leave(self, news: list[str], changed: list[str], report: Report) -> bool:
        """`streaming.broker.gathering.let_leave`, where nobody asks for more than a cadence. False if a timer would fire in the
        batch. ``changed`` are those of the news that were known by another value."""
        brief, ground, facts, now_ms = self.brief, self._ground, self.brief.facts, report.append_ms
        ledgers = brief.ledgers
        brief.news_ms = now_ms
        brief.held += 1
        brief.held_fields = sorted({*brief.held_fields, *news}) if brief.held_fields else news
        complete = ground.topic.is_complete(facts)
        leaves = complete or not ground.timing.hold_ms
        if leaves:
            brief.release_ms, brief.released = None, True
        elif brief.release_ms is None:
            brief.release_ms = now_ms + ground.timing.hold_ms
            if brief.release_ms <= self._until_ms:
                return False
        told: dict[str, list[str]] = {}
        for subscription in ground.concerned(brief.at.key, facts) if leaves else ():
            ledger = ledgers.get(subscription.name)
            untold = self._untold(subscription, ledger, news, changed)
            if not untold:
                continue
            if ledger is None:
                ledger = ledgers[subscription.name] = BriefLedger(0, 0, False, None, [])
            elif ledger.revision and now_ms < ledger.told_ms + subscription.every_ms:
                ledger.due_ms = ledger.told_ms + subscription.every_ms
                if ledger.due_ms <= self._until_ms:
                    return False
                continue
            self._tell(subscription, ledger, untold, complete, report)
            told[subscription.name] = untold
        for name, ledger in ledgers.items():
            untold = told.get(name, [])
            if len(untold) == len(facts) or (ledger.told is None and len(untold) == len(news)):
                ledger.told = None
            elif not self._notes(ledger, untold, news, changed):
                return False
        return True

    def _untold(self, subscription: Subscription, ledger: BriefLedger | None, news: list[str], changed: list[str]) -> list[str]:
        """What it wants and does not know."""
        if ledger is None:
            found: Iterable[str] = self.brief.facts
        elif ledger.told is None:
            found = news
        else:
            found = [name for name in self.brief.facts if name not in ledger.told or name in changed]
        fields = subscription.fields
        return sorted(found if fields is None else [name for name in found if name in fields])

    def _notes(self, ledger: BriefLedger, untold: list[str], news: list[str], changed: list[str]) -> bool:
        """Of somebody who does not know all: note what it knows, since this was told. False if that is not so any more."""
        facts = self.brief.facts
        told = [name for name in facts if name in changed or name not in news] if ledger.told is None else ledger.told
        if any(name in told and name not in untold for name in changed):
            return False
        knows = {*told, *untold}
        ledger.told = None if len(knows) == len(facts) else sorted(knows)
        return True

    def _tell(self, subscription: Subscription, ledger: BriefLedger, untold: list[str], complete: bool, report: Report) -> None:
        """`streaming.notify.tell.notification_of`, as bytes."""
        brief, facts, (_, topic, key) = self.brief, self.brief.facts, self.brief.at
        again = Reason.NEWS if ledger.revision else Reason.FIRST
        reason = Reason.COMPLETE if complete and not ledger.complete else again
        ledger.revision += 1
        ledger.told_ms, ledger.due_ms = report.append_ms, None
        ledger.complete = ledger.complete or complete
        notification = Usual(
            notification_id(subscription.name, subscription.since, brief.id, ledger.revision),
            subscription.subscriber,
            subscription.name,
            topic,
            key,
            brief.id,
            ledger.revision,
            reason,
            {name: facts[name] for name in untold},
            brief.reports + report.reports,
            brief.sources + report.sources,
            min(brief.first_ms, report.first_ms),
            max(brief.last_ms, report.last_ms),
            self._conflicts(subscription) if brief.rivals else {},
        )
        value = encode_usual(notification, subscription.encoding)
        record_key = names.record_key(topic, key)
        self.told.append((reason, WrittenTell(subscription.deliver, record_key, value, report.append_ms)))
        if brief.held and not set(untold).isdisjoint(brief.held_fields):
            self.settled.append((reason, brief.held))
            brief.held, brief.held_fields = 0, []

    def _conflicts(self, subscription: Subscription) -> dict[str, tuple[Value, ...]]:
        return {
            name: tuple(value for value, _ in rivals)
            for name, rivals in sorted(self.brief.rivals.items())
            if subscription.wants(name)
        }
