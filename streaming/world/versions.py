"""The control data of a world, version by version, and what follows from each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidings.control import Snapshot
from topology.plan import Plan


class _Plans(dict[int, Plan]):
    """Each is worked out once, when somebody first asks for it."""

    def __init__(self, snapshots: Mapping[int, Snapshot]) -> None:
        super().__init__()
        self._snapshots = snapshots

    def __missing__(self, version: int) -> Plan:
        self[version] = Plan(self._snapshots[version])
        return self[version]


class Versions(dict[int, Snapshot]):
    """By version. Before the first there is no control data."""

    def __init__(self) -> None:
        super().__init__({0: Snapshot()})
        self._plans = _Plans(self)
        self.plan_at: Callable[[int], Plan] = self._plans.__getitem__
        """What follows from a version."""

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

    def add(self, plan: Plan) -> int:
        """One more version, of which this follows."""
        version = self.latest + 1
        self[version], self._plans[version] = plan.snapshot, plan
        return version

    def change(self, records: Iterable[Mapping[str, Any]], delete: Iterable[str] = ()) -> int:
        """Apply control records and delete some by their keys, all in one version."""
        changes = [(f"{record['kind']}/{record['name']}", json.dumps(record).encode()) for record in records]
        changed = [*changes, *((key, None) for key in delete)]
        version = self.snapshot.version + max(1, len(changed))
        snapshot = self.snapshot.passing_over(version)
        for key, value in changed:
            snapshot = snapshot.apply(version, key, value)
        self[version] = snapshot
        return version
