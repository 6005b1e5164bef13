"""The links of the experiments on ADOCK are the fast way: the service's own pipelines send the same messages."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.adock import data as adock_data
from experiments.adock import links as adock_links
from experiments.adock import setup as adock
from experiments.adock.setup import WINDOW_MS, AdockSetup, AdockWorld
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message
from tidings.predicate import And, render
from topology.plan import Plan

TOPIC = "row"
BY_ITEMS = ("always-forward", "always-aggregate", "wad", "adock", "foresight")
"""The deciders that look at items and ranges only. BAT is left out: it counts by periods of time, and the time that it is told in
the service is that of the last mark, so its periods are others."""
STOCKS = AdockSetup(seed=3, data=adock_data.STOCK, rate=9, subscriptions=45, ratio=2.0, seconds=30)
SENSORS = AdockSetup(seed=3, data=adock_data.TRAFFIC, rate=15, subscriptions=45, ratio=1.0, seconds=20)
INTERWOVEN = AdockSetup(3, adock_data.STOCK, rate=12, subscriptions=30, ratio=2.0, seconds=25, crosswise=True, plain=False)
POINTS = [*((STOCKS, each) for each in BY_ITEMS), (SENSORS, "adock"), (INTERWOVEN, "adock")]


@pytest.fixture(autouse=True)
def made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine, whatever data there is."""
    monkeypatch.setenv(adock_data.FOLDER, str(Path(__file__).parent))


def name_of(number: int) -> str:
    return f"b{number:02d}"


def planned(drawn: AdockWorld, decider: str) -> Plan:
    """The same overlay and subscriptions as control records."""
    brokers = range(len(drawn.overlay.next_links))
    records = [broker(name_of(number)) for number in brokers]
    records += [link(name_of(one.begin), name_of(one.end)) for one in drawn.overlay.links if one.begin < one.end]
    records.append(topic(TOPIC, gather=False, decider=decider))
    for each in drawn.subscriptions:
        window = {"size_ms": each.size_ms, "shift_ms": each.shift_ms, "grace_ms": 0, "of": {"count": "count()"}}
        more = {"window": window} if each.aggregate else {}
        where = render(And(each.where))
        records.append(subscription(each.name, TOPIC, broker=name_of(each.broker), where=where, missing="patient", **more))
    return plan(*records)


def with_windows_of_the_service(drawn: AdockWorld, asked: Plan) -> AdockWorld:
    """Two things differ in the service, and neither is a matter of what links decide.

    Windows begin at multiples of their shift, not when a subscription is issued. So many ranges end at once, and then they are
    decided on in the order of their names, which are those of interests. And what is published at the very millisecond at which a
    range ends may come before that end.
    """
    named = {name: each.interest or name for name, each in asked.snapshot.subscriptions.items()}
    assert len(set(named.values())) == len(named), "nobody shares windows with another"
    subscriptions = [replace(each, name=named[each.name], issued_ms=0) for each in drawn.subscriptions]
    times_ms = drawn.times_ms + (drawn.times_ms % min(each.shift_ms for each in subscriptions) == 0)
    return replace(drawn, subscriptions=subscriptions, times_ms=np.sort(times_ms))


def crossed_in_the_service(drawn: AdockWorld, asked: Plan) -> Counter[str]:
    """What crosses links, by kind. The first range begins a window after all brokers know of the subscriptions: earlier ones,
    which the service does not tell of, would have begun before that."""
    simulator = Simulator(asked, lambda *_: 0)
    at = [name_of(number) for number in publishers(drawn)]
    for number, (row, time_ms) in enumerate(zip(drawn.rows.tolist(), drawn.times_ms.tolist(), strict=True)):
        message = Message(TOPIC, "k", drawn.data.row(row), id=f"m{number:06d}")
        simulator.publish(2 * WINDOW_MS + time_ms, at[number], message)
    simulator.run()
    return sum((each.kinds for each in simulator.crossed.values()), Counter())


def publishers(drawn: AdockWorld) -> list[int]:
    """The broker where each publication enters, as `adock.routing` has it."""
    over, setup = drawn.overlay, drawn.setup
    assert not setup.scattered
    return [over.publishing[who % len(over.publishing)] for who in drawn.data.publisher[drawn.rows].tolist()]


@pytest.mark.parametrize(
    ("setup", "decider"), [*((STOCKS, each) for each in BY_ITEMS), (SENSORS, "adock"), (INTERWOVEN, "adock")]
)
def test_the_service_sends_the_same_messages_as_the_links_of_the_experiments(setup: AdockSetup, decider: str) -> None:
    world = adock.world(setup)
    asked = planned(world, decider)
    drawn = with_windows_of_the_service(world, asked)
    found, crossed = adock_links.simulate(drawn, decider), crossed_in_the_service(drawn, asked)
    assert (crossed["PassedOn"], crossed["Publication"], crossed["Aggregated"]) == (
        found.at_once,
        found.forwarded,
        found.aggregated,
    )
    assert found.messages > 0
