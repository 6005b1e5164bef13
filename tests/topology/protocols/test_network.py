"""The network in memory: order, neighbours, counts, links that go down, and rest."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UnknownBroker
from topology.protocols.network import AnyOrder, InOrder, Network, NotANeighbour, Restless, Schedule, Timed


@dataclass
class Listener:
    """Keeps what it hears, and sends each message on to whom ``onward`` names."""

    onward: list[str] = field(default_factory=list)
    heard: list[tuple[str, object]] = field(default_factory=list)

    def received(self, sender: str, message: object, /) -> list[tuple[str, object]]:
        self.heard.append((sender, message))
        return [(neighbour, message) for neighbour in self.onward]


def network_of(
    *links: tuple[str, str], schedule: Schedule[object] | None = None, onward: dict[str, list[str]] | None = None
) -> tuple[Network[object], dict[str, Listener]]:
    network: Network[object] = Network(schedule)
    nodes = {name: Listener((onward or {}).get(name, [])) for name in sorted({end for link in links for end in link})}
    for name, node in nodes.items():
        network.add(name, node)
    for a, b in links:
        network.connect(a, b)
    return network, nodes


def test_messages_arrive_in_the_order_of_sending_over_all_links():
    network, nodes = network_of(("a", "c"), ("b", "c"))
    network.inject("a", [("c", 1)])
    network.inject("b", [("c", 2)])
    network.inject("a", [("c", 3)])
    assert network.run() == 3
    assert nodes["c"].heard == [("a", 1), ("b", 2), ("a", 3)]


def test_answers_are_sent_on():
    network, nodes = network_of(("a", "b"), ("b", "c"), onward={"b": ["c"]})
    network.inject("a", [("b", "hello")])
    assert network.run() == 2
    assert nodes["c"].heard == [("b", "hello")]


def test_each_step_says_what_was_delivered():
    network, _ = network_of(("a", "b"))
    network.inject("a", [("b", "hello")])
    flight = network.step()
    assert flight is not None
    assert (flight.sender, flight.receiver, flight.message) == ("a", "b", "hello")
    assert network.step() is None


def test_messages_are_counted_by_kind_and_by_direction():
    network, _ = network_of(("a", "b"))
    network.inject("a", [("b", 1), ("b", "x")])
    network.inject("b", [("a", 2)])
    network.run()
    assert network.messages == 3
    assert network.by_kind == {"int": 2, "str": 1}
    assert network.by_link == {("a", "b"): 2, ("b", "a"): 1}
    assert network.lost == 0


def test_a_node_may_only_talk_to_its_neighbours():
    network, _ = network_of(("a", "b"), ("b", "c"), onward={"b": ["a"], "a": ["c"]})
    network.inject("c", [("b", "gossip")])
    with pytest.raises(NotANeighbour, match="'a' sent to 'c'"):
        network.run()


def test_a_protocol_that_never_rests_is_stopped():
    network, _ = network_of(("a", "b"), onward={"a": ["b"], "b": ["a"]})
    network.inject("a", [("b", 1)])
    with pytest.raises(Restless, match="after 20 deliveries; sent so far: 22 int"):
        network.run(limit=20)


def test_the_limit_itself_is_allowed():
    network, _ = network_of(("a", "b"))
    network.inject("a", [("b", 1), ("b", 2)])
    assert network.run(limit=2) == 2


def test_a_link_that_goes_down_loses_what_is_under_way_in_both_directions():
    network, nodes = network_of(("a", "b"), ("b", "c"))
    network.inject("a", [("b", 1)])
    network.inject("b", [("a", 2), ("c", 3)])
    network.cut("b", "a")
    assert network.run() == 1
    assert [node.heard for node in nodes.values()] == [[], [], [("b", 3)]]
    assert network.lost == 2


def test_a_link_made_again_carries_only_new_messages():
    network, nodes = network_of(("a", "b"))
    network.inject("a", [("b", "old")])
    network.cut("a", "b")
    network.connect("a", "b")
    network.inject("a", [("b", "new")])
    assert network.run(limit=1) == 1
    assert nodes["b"].heard == [("a", "new")]


def test_what_is_sent_on_a_link_that_is_down_is_lost_and_counted():
    network, nodes = network_of(("a", "b"))
    network.cut("a", "b")
    network.inject("a", [("b", 1)])
    assert network.run() == 0
    assert nodes["b"].heard == []
    assert (network.messages, network.lost) == (1, 1)


def test_a_node_that_goes_takes_its_links_down():
    network, nodes = network_of(("a", "b"), ("b", "c"), ("a", "c"))
    network.inject("a", [("b", 1), ("c", 2)])
    network.remove("b")
    network.add("b", back := Listener())
    network.run()
    assert nodes["b"].heard == back.heard == []
    assert nodes["c"].heard == [("a", 2)]


def test_mistakes_of_the_owner_are_refused():
    network, _ = network_of(("a", "b"), ("b", "c"))
    with pytest.raises(ValueError, match="a node 'a' already"):
        network.add("a", Listener())
    with pytest.raises(UnknownBroker, match="'d'"):
        network.connect("a", "d")
    with pytest.raises(NotANeighbour, match="'a' sent to 'c'"):
        network.cut("a", "c")


def jittery(seed: int) -> Timed[object]:
    chance = random.Random(seed)
    return Timed(lambda _sender, _receiver: chance.uniform(0, 3))


SCHEDULES = {
    "in order": lambda _seed: InOrder(),
    "any order": lambda seed: AnyOrder(random.Random(seed)),
    "timed": jittery,
}


@pytest.mark.parametrize("schedule_of", SCHEDULES.values(), ids=SCHEDULES)
@given(seed=st.integers(0, 2**32), script=st.lists(st.sampled_from(["ab", "ba", "bc", "cb", "step"]), min_size=10, max_size=40))
def test_every_schedule_keeps_the_order_of_a_link_and_loses_nothing(schedule_of, seed, script):
    network, nodes = network_of(("a", "b"), ("b", "c"), schedule=schedule_of(seed))
    sent: dict[tuple[str, str], list[int]] = {}
    for number, move in enumerate(script):
        if move == "step":
            network.step()
        else:
            network.inject(move[0], [(move[1], number)])
            sent.setdefault((move[0], move[1]), []).append(number)
    network.run()
    heard: dict[tuple[str, str], list[object]] = {}
    for name, node in nodes.items():
        for sender, message in node.heard:
            heard.setdefault((sender, name), []).append(message)
    assert heard == sent


def test_any_order_finds_every_order_that_links_allow():
    found = set()
    for seed in range(60):
        network, nodes = network_of(("a", "c"), ("b", "c"), schedule=AnyOrder(random.Random(seed)))
        network.inject("a", [("c", 1), ("c", 2)])
        network.inject("b", [("c", 3)])
        network.run()
        found.add(tuple(message for _, message in nodes["c"].heard))
    assert found == {(1, 2, 3), (1, 3, 2), (3, 1, 2)}


def test_delays_decide_when_messages_arrive():
    delays = {("a", "c"): 5.0, ("b", "c"): 1.5, ("c", "b"): 2.0}
    timed: Timed[object] = Timed(lambda sender, receiver: delays[sender, receiver])
    network, nodes = network_of(("a", "c"), ("b", "c"), schedule=timed, onward={"c": ["b"]})
    network.inject("a", [("c", "slow")])
    network.inject("b", [("c", "quick")])
    arrivals = [(timed.now, flight.sender, flight.message) for flight in network.deliveries(limit=10)]
    assert arrivals == [(1.5, "b", "quick"), (3.5, "c", "quick"), (5.0, "a", "slow"), (7.0, "c", "slow")]
    assert nodes["b"].heard == [("c", "quick"), ("c", "slow")]


@pytest.mark.parametrize("delay", [-1.0, float("nan")])
def test_a_delay_that_is_no_time_is_refused(delay):
    network, _ = network_of(("a", "b"), schedule=Timed(lambda _sender, _receiver: delay))
    with pytest.raises(ValueError, match="the delay from 'a' to 'b'"):
        network.inject("a", [("b", 1)])
