"""The control data of a world, version by version, and what follows from each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidings.control import Snapshot
from topology.plan import Plan


class Versions(dict[int, Snapshot]):
    """By version. Before the first there is no control data."""

    def __init__(self) -> None:
        super().__init__({0: Snapshot()})
        self._plans: dict[int, Plan] = {}

    @property
    def latest(self) -> int:
        return max(self)

    @property
    def snapshot(self) -> Snapshot:
        """As it is now."""
        return self[self.latest]

    @property
    def plan(self) -> Plan:
        """What follows from the control data as it is now."""
        return self.plan_at(self.latest)

    def plan_at(self, version: int) -> Plan:
        """What follows from a version; worked out once."""
        plan = self._plans.get(version)
        if plan is None:
            plan = self._plans[version] = Plan(self[version])
        return plan

    def add(self, plan: Plan) -> int:
        """One more version, of which this follows."""
        version = self.latest + 1
        self[version], self._plans[version] = plan.snapshot, plan
        return version

    def change(self, records: Iterable[Mapping[str, Any]], delete: Iterable[str] = ()) -> int:
        """Apply control records and delete some by their keys, all in one version."""
        changes = [(f"{record['kind']}/{record['name']}", json.dumps(record).encode()) for record in records]
        changed = [*changes, *((key, None) for key in delete)]
        snapshot = self.snapshot
        version = snapshot.version + len(changed)
        for key, value in changed:
            snapshot = snapshot.apply(version, key, value)
        self[version] = snapshot
        return version
