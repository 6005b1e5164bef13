"""An event of the usual kind, while the messages of a batch about it are joined to it.

For each message what `streaming.broker.gathering` does, on a `Brief`. Nothing is done anywhere else until all of them have been
joined: if one of them is unusual, the event stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.batch.brief import Brief, BriefLedger
from streaming.batch.ground import Ground
from streaming.batch.report import Report
from streaming.batch.writing import told
from streaming.broker.state import Rules
from streaming.model.outputs import WrittenTell
from tidings.notification import Reason
from tidings.registers import Join
from tidings.subscription import Subscription
from tidings.values import Value, sort_key


class Joining:
    """What became of the event so far, and what is to be done for that."""

    __slots__ = (
        *("brief", "conflicts", "disputed", "news", "settled", "told"),
        *("_by", "_facts", "_ground", "_rules", "_said", "_until_ms"),
    )

    def __init__(self, brief: Brief, ground: Ground, rules: Rules, until_ms: int) -> None:
        self.brief, self._ground, self._rules, self._until_ms = brief, ground, rules, until_ms
        self._facts, self._said = brief.facts, brief.said
        self._by = dict(zip(brief.facts, brief.claims, strict=True)) if brief.facts else {}
        self.news = self.disputed = self.conflicts = 0
        """How many messages had news; how many had none and disputed something; and how many values are new in dispute."""
        self.told: list[tuple[Reason, WrittenTell]] = []
        self.settled: list[tuple[Reason, int]] = []
        """Why what was held was told, and how many messages that were."""

    def join(self, report: Report) -> bool:
        """Join one message. False if it is unusual: then nothing of all this is to be used."""
        fields, facts = report.message.fields, self._facts
        new = [name for name in fields if name not in facts] if facts else list(fields)
        changed: list[str] = []
        if len(new) < len(fields):
            before = self.conflicts
            for name, value in fields.items():
                if name in facts and not self._meets(name, value, report, changed):
                    return False
            self.disputed += self.conflicts > before and not new and not changed
        if new and not self._adds(new, report):
            return False
        if not new and not changed:
            return True
        self.news += 1
        return self._lets_leave(new, changed, report)

    def finish(self, reports: int, sources: int, first_ms: int, last_ms: int) -> None:
        """All of the batch has been joined: so many reports, from so many sources that are new, of these published times."""
        brief, by, said = self.brief, self._by, self._said
        brief.reports += reports
        brief.sources += sources
        brief.first_ms, brief.last_ms = min(brief.first_ms, first_ms), max(brief.last_ms, last_ms)
        brief.claims = list(by.values())
        if len(said) > len(by) + sum(map(len, brief.rivals.values())):
            # Some were believed before, and are not any more.
            number_of: dict[int, int] = {}
            brief.claims = [number_of.setdefault(number, len(number_of)) for number in brief.claims]
            brief.rivals = {
                name: [(value, number_of.setdefault(number, len(number_of))) for value, number in rivals]
                for name, rivals in brief.rivals.items()
            }
            brief.said = [said[number] for number in number_of]

    # ---- what is known ------------------------------------------------------------------------------------------------

    def _adds(self, new: list[str], report: Report) -> bool:
        """Fields that nobody had stated."""
        facts, ground, rules = self._facts, self._ground, self._rules
        if len(facts) + len(new) > rules.event_fields or not ground.takes(new, rules.bounds.conflicts):
            return False
        fields = report.message.fields
        facts.update(fields if len(new) == len(fields) else {name: fields[name] for name in new})
        self._by.update(dict.fromkeys(new, self._number(report)))
        if ground.joins:
            kinds = {name: kind for name in new if (kind := ground.topic.join_of(name)) is not Join.FIRST}
            self.brief.kinds.update(kinds)
        return True

    def _meets(self, name: str, value: Value, report: Report, changed: list[str]) -> bool:
        """A field that somebody has stated. False if that is to be looked at as `registers.join` does."""
        known = self._facts[name]
        said = self._said[self._by[name]]
        if self._ground.joins and self._ground.topic.join_of(name) is Join.UNION:
            return False  # its parts would be claims of their own
        if type(value) is type(known) and value == known:
            # Of two that say the same, the earlier one is believed.
            if said[0] < report.published_ms:
                return True
            mine = report.published_ms, report.message_id
            if mine == said[:2]:
                return report.message.source == said[2]
            if mine < said[:2]:
                self._by[name] = self._number(report)
            return True
        kind = self.brief.kinds.get(name, Join.FIRST)
        if kind is Join.FIRST:
            return self._disputes(name, value, report)
        order, other = sort_key(known), sort_key(value)
        if order == other:
            return False
        if (other < order) is (kind is Join.MIN):
            self._facts[name] = value
            self._by[name] = self._number(report)
            changed.append(name)
        return True

    def _disputes(self, name: str, value: Value, report: Report) -> bool:
        """Another value of a field that keeps the first one: it loses, if it is the later one."""
        said, mine = self._said, (report.published_ms, report.message_id)
        rivals = self.brief.rivals.get(name, [])
        fact = sort_key(value)
        if mine <= said[self._by[name]][:2] or fact == sort_key(self._facts[name]):
            return False
        for rival, by in rivals:
            if sort_key(rival) == fact:
                return said[by][:2] < mine
        if len(rivals) + 1 >= self._rules.bounds.conflicts or any(said[by][:2] == mine for _, by in rivals):
            return False
        rivals = [*rivals, (value, self._number(report))]
        self.brief.rivals[name] = sorted(rivals, key=lambda rival: said[rival[1]][:2])
        self.conflicts += 1
        return True

    def _number(self, report: Report) -> int:
        """That of the report among those that are believed."""
        mine = report.published_ms, report.message_id, report.message.source
        if not self._said or self._said[-1] != mine:
            self._said.append(mine)
        return len(self._said) - 1

    # ---- what leaves --------------------------------------------------------------------------------------------------

    def _lets_leave(self, new: list[str], changed: list[str], report: Report) -> bool:
        """`streaming.broker.gathering.let_leave`, where nobody asks for more than a cadence. False if a timer would fire within
        the batch."""
        brief, ground, facts, now_ms = self.brief, self._ground, self._facts, report.append_ms
        brief.news_ms = now_ms
        brief.held += 1
        brief.held_fields = sorted({*brief.held_fields, *new, *changed}) if brief.held_fields else [*new, *changed]
        complete = ground.topic.is_complete(facts)
        leaves = complete or not ground.timing.hold_ms
        if leaves:
            brief.release_ms, brief.released = None, True
        elif brief.release_ms is None:
            brief.release_ms = now_ms + ground.timing.hold_ms
            if brief.release_ms <= self._until_ms:
                return False
        asked = ground.concerned(brief.at.key, facts) if leaves else ()
        knew = list(facts)[: len(facts) - len(new)] if brief.ledgers else []
        told_now: dict[str, list[str]] = {}
        for subscription in asked:
            name = subscription.name
            ledger = brief.ledgers.get(name)
            untold = self._untold(subscription, ledger, new, changed)
            if not untold:
                continue
            if ledger is None:
                ledger = brief.ledgers[name] = BriefLedger(0, 0, False, None, [])
            if ledger.revision and now_ms < ledger.told_ms + subscription.every_ms:
                ledger.due_ms = ledger.told_ms + subscription.every_ms
                if ledger.due_ms <= self._until_ms:
                    return False
                continue
            self._tell(subscription, ledger, untold, complete, report)
            told_now[name] = untold
        for name, ledger in brief.ledgers.items():
            untold = told_now.get(name, [])
            if len(untold) == len(facts):
                ledger.told = None
            elif not self._notes(ledger, untold, knew, changed):
                return False
        return True

    def _untold(self, subscription: Subscription, ledger: BriefLedger | None, new: list[str], changed: list[str]) -> list[str]:
        """What it wants and does not know, of facts of which these are new or have changed."""
        if ledger is None:
            found: Iterable[str] = self._facts
        elif ledger.told is None:
            found = new + changed
        else:
            found = [name for name in self._facts if name not in ledger.told or name in changed]
        fields = subscription.fields
        return sorted(found if fields is None else (name for name in found if name in fields))

    def _notes(self, ledger: BriefLedger, untold: list[str], knew: list[str], changed: list[str]) -> bool:
        """Note of what somebody knows that it was told this now. False if it was told before what is not so any more."""
        told = knew if ledger.told is None else ledger.told
        if changed and any(name in told and name not in untold for name in changed):
            return False
        knows = {*told, *untold}
        ledger.told = None if len(knows) == len(self._facts) else sorted(knows)
        return True

    def _tell(self, subscription: Subscription, ledger: BriefLedger, untold: list[str], complete: bool, report: Report) -> None:
        brief, facts = self.brief, self._facts
        again = Reason.NEWS if ledger.revision else Reason.FIRST
        reason = Reason.COMPLETE if complete and not ledger.complete else again
        ledger.revision += 1
        ledger.told_ms, ledger.complete, ledger.due_ms = report.append_ms, ledger.complete or complete, None
        counts = (
            *(brief.reports + report.reports, brief.sources + report.sources),
            *(min(brief.first_ms, report.first_ms), max(brief.last_ms, report.last_ms)),
        )
        conflicts = self._conflicts(subscription) if brief.rivals else {}
        news = {name: facts[name] for name in untold}
        at, event, now_ms = brief.at, brief.id, report.append_ms
        record = told(subscription, at, event, event, ledger.revision, reason, news, counts, conflicts, now_ms)
        self.told.append((reason, record))
        if brief.held and not set(untold).isdisjoint(brief.held_fields):
            self.settled.append((reason, brief.held))
            brief.held, brief.held_fields = 0, []

    def _conflicts(self, subscription: Subscription) -> dict[str, tuple[Value, ...]]:
        return {
            name: tuple(value for value, _ in rivals)
            for name, rivals in sorted(self.brief.rivals.items())
            if subscription.wants(name)
        }
