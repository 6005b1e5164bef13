"""Finding the centre: who is told what, the bound on messages, changes at any moment."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import BadOverlay, NotConnected, UnknownBroker
from topology.centre import centre, median, total_distance
from topology.protocols.election import (
    Centre,
    CentreNode,
    Eccentricity,
    Init,
    Message,
    Round,
    Stable,
    Update,
    elected,
    election_time,
    message_bound,
)
from topology.protocols.network import AnyOrder, Network


def tree_of(graph: nx.Graph) -> dict[str, list[str]]:
    """Neighbours by name; names are such that their order is not that of the numbers."""
    return {f"b{node}": [f"b{other}" for other in graph[node]] for node in graph}


def grown(size: int, reach: int, seed: int) -> dict[str, list[str]]:
    """A random tree where each broker hangs on one of the last ``reach``: 1 is a path, many is bushy. Names are shuffled."""
    chance = random.Random(seed)
    names = [f"b{number}" for number in range(size)]
    chance.shuffle(names)
    tree: dict[str, list[str]] = {name: [] for name in names}
    for number in range(1, size):
        above = names[chance.randrange(max(0, number - reach), number)]
        tree[above].append(names[number])
        tree[names[number]].append(above)
    return tree


trees = st.builds(grown, st.integers(1, 60), st.sampled_from([1, 2, 4, 60]), st.integers(0, 2**32))
small_trees = st.builds(grown, st.integers(1, 12), st.sampled_from([1, 2, 12]), st.integers(0, 2**32))
chances = st.integers(0, 2**32).map(random.Random)


def centres_of(tree) -> tuple[str, ...]:
    return tuple(sorted(nx.center(nx.Graph(tree))))


# --- what one broker says -------------------------------------------------------------------------------------------

ONE = Round(1, "b1")


def test_a_starting_leaf_says_init_and_its_final_value_at_once():
    assert CentreNode("b1", ["b2"]).start() == [("b2", Init(ONE)), ("b2", Update(ONE, 1, stable=True))]


def test_init_is_passed_on_but_not_back():
    node = CentreNode("b3", ["b5", "b2", "b4"])
    assert node.received("b2", Init(ONE)) == [("b4", Init(ONE)), ("b5", Init(ONE))]


def test_a_leaf_answers_init_with_its_final_value():
    assert CentreNode("b4", ["b3"]).received("b3", Init(ONE)) == [("b3", Update(ONE, 1, stable=True))]


def test_the_middle_of_figure_2():
    # b1–b2–b3–b5–b6 with b4 at b3, seen from b3; b1's wave comes first, then b6's, then b4's.
    node = CentreNode("b3", ["b2", "b4", "b5"])
    node.received("b2", Init(ONE))
    assert node.received("b2", Update(ONE, 2, stable=True)) == [("b4", Update(ONE, 3, False)), ("b5", Update(ONE, 3, False))]
    assert node.received("b5", Update(ONE, 2, stable=True)) == [("b2", Update(ONE, 3, False)), ("b4", Stable(ONE))]
    assert node.received("b4", Update(ONE, 1, stable=True)) == [
        ("b2", Stable(ONE)),
        ("b5", Stable(ONE)),
        *((neighbour, Eccentricity(ONE, 2)) for neighbour in ("b2", "b4", "b5")),
    ]
    assert node.eccentricity == 2
    assert node.received("b2", Eccentricity(ONE, 3)) == []
    assert node.received("b4", Eccentricity(ONE, 3)) == []
    assert node.gatherer is None
    told = node.received("b5", Eccentricity(ONE, 3))
    assert told == [(neighbour, Centre(ONE, ("b3",))) for neighbour in ("b2", "b4", "b5")]
    assert node.is_gatherer


def test_stable_rides_on_the_update_that_is_final():
    node = CentreNode("b3", ["b2", "b4", "b5"])
    node.received("b2", Init(ONE))
    node.received("b4", Update(ONE, 1, stable=True))
    assert node.received("b5", Update(ONE, 2, stable=True)) == [("b2", Update(ONE, 3, True)), ("b4", Update(ONE, 3, False))]


def test_a_patient_broker_only_says_what_is_final():
    node = CentreNode("b3", ["b2", "b4", "b5"], patient=True)
    node.received("b2", Init(ONE))
    assert node.received("b4", Update(ONE, 1, stable=True)) == []
    assert node.received("b5", Update(ONE, 2, stable=True)) == [("b2", Update(ONE, 3, True))]
    assert node.received("b2", Update(ONE, 2, stable=True))[:2] == [("b4", Update(ONE, 3, True)), ("b5", Update(ONE, 3, True))]


def test_of_two_centres_only_the_first_by_name_announces_both():
    def knowing(name: str, twin: str) -> CentreNode:
        node = CentreNode(name, ["b1", twin])
        node.received("b1", Init(ONE))
        node.received("b1", Update(ONE, 1, stable=True))
        node.received(twin, Update(ONE, 2, stable=True))
        node.received("b1", Eccentricity(ONE, 3))
        return node

    first, second = knowing("b2", "b3"), knowing("b3", "b2")
    assert first.received("b3", Eccentricity(ONE, 2)) == [("b1", Centre(ONE, ("b2", "b3"))), ("b3", Centre(ONE, ("b2", "b3")))]
    assert second.received("b2", Eccentricity(ONE, 2)) == []
    assert second.received("b2", Centre(ONE, ("b2", "b3"))) == [("b1", Centre(ONE, ("b2", "b3")))]
    assert (first.gatherer, second.gatherer) == ("b2", "b2")
    assert (first.is_gatherer, second.is_gatherer) == (True, False)


def test_messages_of_an_older_round_are_ignored():
    node = CentreNode("b3", ["b2", "b4"])
    node.received("b2", Init(Round(2, "b2")))
    for message in (Init(ONE), Update(ONE, 7, stable=True), Stable(ONE), Eccentricity(ONE, 0), Centre(ONE, ("b9",))):
        assert node.received("b4", message) == []
    assert (node.round, node.gatherer) == (Round(2, "b2"), None)


@pytest.mark.parametrize(
    ("higher", "lower"),
    [(Round(3, "b1"), Round(2, "b9")), (Round(2, "b9"), Round(2, "b1"))],
    ids=["the later start", "of two at once the larger name"],
)
def test_the_higher_round_wins(higher, lower):
    node = CentreNode("b3", ["b2", "b4"])
    node.received("b2", Init(lower))
    assert node.received("b4", Init(higher)) == [("b2", Init(higher))]
    assert node.received("b2", Init(lower)) == []


def test_a_new_round_forgets_the_gatherer_of_the_one_before():
    node = CentreNode("b3")
    assert node.start() == []
    assert node.gatherer == "b3"
    node.neighbour_joined("b4")
    assert node.gatherer is None


def test_a_broker_that_has_not_noticed_a_link_still_starts_above_what_came_over_it():
    node = CentreNode("b3", ["b2"])
    assert node.received("b4", Init(Round(8, "b4"))) == []
    assert node.neighbour_joined("b4")[0] == ("b2", Init(Round(9, "b3")))


def test_losing_somebody_unknown_changes_nothing():
    node = CentreNode("b3", ["b2"])
    assert node.neighbour_lost("b7") == []
    assert node.round == Round(0, "")


# --- one start ------------------------------------------------------------------------------------------------------


def run(tree, starters, chance: random.Random, patient: bool) -> tuple[dict[str, CentreNode], Network[Message]]:
    network: Network[Message] = Network(AnyOrder(chance))
    nodes = {name: CentreNode(name, neighbours, patient=patient) for name, neighbours in tree.items()}
    for name, node in nodes.items():
        network.add(name, node)
    for a, b in nx.Graph(tree).edges:
        network.connect(a, b)
    for starter in starters:
        network.inject(starter, nodes[starter].start())
    network.run()
    return nodes, network


@given(trees, chances, st.booleans())
def test_one_start_finds_the_centre_within_the_bound_in_any_order(tree, chance, patient):
    nodes, network = run(tree, [chance.choice(sorted(tree))], chance, patient)
    centres = centres_of(tree)
    assert {node.centres for node in nodes.values()} == {centres}
    assert {node.gatherer for node in nodes.values()} == {centres[0]}
    assert [name for name, node in nodes.items() if node.is_gatherer] == [centres[0]]
    assert {name: node.eccentricity for name, node in nodes.items()} == nx.eccentricity(nx.Graph(tree))
    links = len(tree) - 1
    assert network.messages <= message_bound(tree)
    assert (network.by_kind["Init"], network.by_kind["Eccentricity"], network.by_kind["Centre"]) == (links, 2 * links, links)
    if patient:
        assert (network.by_kind["Update"], network.by_kind["Stable"], network.messages) == (2 * links, 0, 6 * links)


@given(trees, chances)
def test_starts_at_the_same_time_end_in_one_round(tree, chance):
    starters = chance.sample(sorted(tree), k=min(3, len(tree)))
    nodes, _ = run(tree, starters, chance, patient=False)
    assert {node.round for node in nodes.values()} == {Round(1, max(starters))}
    assert {node.centres for node in nodes.values()} == {centres_of(tree)}


FAMILIES = {
    "one broker": (nx.path_graph(1), ("b0",), 0),
    "two brokers": (nx.path_graph(2), ("b0", "b1"), 6),
    "an odd path": (nx.path_graph(9), ("b4",), 6 * 8),
    "an even path": (nx.path_graph(10), ("b4", "b5"), 6 * 9),
    "names do not sort like numbers": (nx.path_graph(20), ("b10", "b9"), 6 * 19),
    "a star": (nx.star_graph(5), ("b0",), 9 * 5),
    "a full binary tree": (nx.balanced_tree(2, 3), ("b0",), 12 * 14),
}


@pytest.mark.parametrize(("graph", "centres", "bound"), FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("patient", [False, True])
def test_families_with_a_known_centre(graph, centres, bound, patient):
    tree = tree_of(graph)
    assert message_bound(tree) == bound
    for starter in tree:
        election = elected(tree, starter=starter, patient=patient)
        assert (election.gatherer, election.centres) == (centres[0], centres)
        assert election.messages == sum(election.by_kind.values()) <= bound


def test_a_path_takes_the_bound_to_the_last_message():
    election = elected(tree_of(nx.path_graph(30)))
    assert election.messages == 6 * 29
    assert election.by_kind == {"Init": 29, "Update": 58, "Eccentricity": 58, "Centre": 29}


def test_without_a_starter_the_first_by_name_starts():
    tree = tree_of(nx.full_rary_tree(3, 30))
    assert elected(tree) == elected(tree, starter="b0")


def test_thousands_of_brokers():
    tree = grown(3200, reach=3200, seed=5)
    election = elected(tree, patient=True)
    assert election.centres == centres_of(tree)
    assert election.messages == 6 * 3199


BAD_TREES = {
    "no brokers": ({}, BadOverlay, "without brokers"),
    "a ring": (tree_of(nx.cycle_graph(4)), BadOverlay, "a way round"),
    "a neighbour named twice": ({"a": ["b", "b"], "b": ["a"]}, BadOverlay, "named twice"),
    "its own neighbour": ({"a": ["a"]}, BadOverlay, "a way round"),
    "one-sided": ({"a": ["b"], "b": []}, BadOverlay, "'a' names 'b'"),
    "a stranger": ({"a": ["z"]}, UnknownBroker, "'z'"),
    "three parts": ({"a": [], "b": ["c"], "c": ["b"], "d": []}, NotConnected, "3 parts: a; b, c; d"),
}


@pytest.mark.parametrize(("tree", "error", "says"), BAD_TREES.values(), ids=BAD_TREES)
def test_what_is_no_tree_is_refused(tree, error, says):
    with pytest.raises(error, match=says):
        elected(tree)
    with pytest.raises(error, match=says):
        election_time(tree, lambda _a, _b: 1.0, "a")
    for asked in (centre, lambda each: median(each, {}), lambda each: total_distance(each, {})):
        with pytest.raises(error, match=says):
            asked(tree)


@given(trees)
def test_what_is_computed_in_one_place_is_what_they_find(tree):
    assert centre(tree) == elected(tree, patient=True).gatherer == min(centres_of(tree))


def test_an_unknown_starter_is_refused():
    with pytest.raises(UnknownBroker, match="'z'"):
        elected({"a": []}, starter="z")


# --- the time it takes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "starter", "hops"),
    [
        (nx.path_graph(1), "b0", 0),
        # INIT with the value of b0; the value and the eccentricity of b1; the announcement
        (nx.path_graph(2), "b0", 3),
        (nx.path_graph(3), "b1", 5),
        (nx.star_graph(9), "b0", 5),
        (nx.star_graph(9), "b1", 6),
    ],
)
def test_time_in_hops(graph, starter, hops):
    learned, election = election_time(tree_of(graph), lambda _a, _b: 1.0, starter)
    assert learned == hops
    assert election.gatherer == elected(tree_of(graph)).gatherer


def test_time_counts_the_delay_of_each_direction():
    # b0 starts and is the smaller of two; b1 answers over the slow direction, then hears of b0 over the quick one.
    delays = {("b0", "b1"): 0.25, ("b1", "b0"): 10.0}
    learned, _ = election_time(tree_of(nx.path_graph(2)), lambda a, b: delays[a, b], "b0")
    assert learned == 0.25 + 10.0 + 0.25


def test_time_ends_with_the_last_broker_that_learns_not_with_the_last_message():
    # What b0 says second is its eccentricity, which b1 does not need: everybody has learned of b2 long before it arrives.
    sent: list[tuple[str, str]] = []

    def slow_the_second_time(a: str, b: str) -> float:
        sent.append((a, b))
        return 50.0 if sent.count(("b0", "b1")) == 2 and (a, b) == ("b0", "b1") else 1.0

    learned, election = election_time(tree_of(nx.path_graph(5)), slow_the_second_time, "b2")
    assert sent.count(("b0", "b1")) == 2
    assert (election.gatherer, learned) == ("b2", 8.0)


@given(trees, st.integers(0, 2**32))
def test_patience_costs_no_time(tree, seed):
    chance = random.Random(seed)
    delays = {(a, b): chance.uniform(0.1, 2) for a in sorted(tree) for b in tree[a]}
    starter = chance.choice(sorted(tree))
    eager, election = election_time(tree, lambda a, b: delays[a, b], starter)
    patient, same = election_time(tree, lambda a, b: delays[a, b], starter, patient=True)
    assert eager == patient
    assert election.centres == same.centres == centres_of(tree)
    assert same.messages <= election.messages <= message_bound(tree)


# --- changes at any moment ------------------------------------------------------------------------------------------


class Overlay:
    """A forest that changes while messages are under way. The two ends of a link notice a change in their own time."""

    def __init__(self, chance: random.Random, brokers: int, patience: float = 0.3) -> None:
        self.chance = chance
        self.patience = patience
        self.graph = nx.Graph()
        self.network: Network[Message] = Network(AnyOrder(chance))
        self.nodes: dict[str, CentreNode] = {}
        self.unnoticed: list[tuple[str, str, str]] = []
        for _ in range(brokers):
            self.add_alone()

    def add_alone(self) -> str:
        name = f"b{self.chance.randrange(10**6)}"
        if name not in self.nodes:
            self._put(name)
        return name

    def _put(self, name: str) -> None:
        self.graph.add_node(name)
        # Patient and eager brokers understand each other.
        self.nodes[name] = CentreNode(name, patient=self.chance.random() < self.patience)
        self.network.add(name, self.nodes[name])
        self.network.inject(name, self.nodes[name].start())

    def _link(self, a: str, b: str) -> None:
        self.graph.add_edge(a, b)
        self.network.connect(a, b)
        self.unnoticed += [("joined", a, b), ("joined", b, a)]

    def _unlink(self, a: str, b: str) -> None:
        self.graph.remove_edge(a, b)
        self.network.cut(a, b)
        self.unnoticed += [("lost", a, b), ("lost", b, a)]

    def add_leaf(self) -> None:
        above = self.chance.choice(sorted(self.graph))
        below = self.add_alone()
        if above != below and not nx.has_path(self.graph, above, below):
            self._link(above, below)

    def join(self) -> None:
        parts = list(nx.connected_components(self.graph))
        if len(parts) > 1:
            one, other = self.chance.sample(parts, k=2)
            self._link(self.chance.choice(sorted(one)), self.chance.choice(sorted(other)))

    def cut(self) -> None:
        if self.graph.edges:
            self._unlink(*self.chance.choice(sorted(self.graph.edges)))

    def mend(self) -> None:
        """A link goes down and comes back at once."""
        if self.graph.edges:
            a, b = self.chance.choice(sorted(self.graph.edges))
            self._unlink(a, b)
            self._link(a, b)

    def crash(self) -> None:
        """A broker dies and comes back, having forgotten everything, linked as before."""
        name = self.chance.choice(sorted(self.graph))
        neighbours = sorted(self.graph[name])
        for neighbour in neighbours:
            self._unlink(name, neighbour)
        self.unnoticed = [notice for notice in self.unnoticed if notice[1] != name]
        self.network.remove(name)
        self._put(name)
        for neighbour in neighbours:
            if self.chance.random() < 0.7:
                self._link(name, neighbour)

    def restart(self) -> None:
        """A start for no reason."""
        name = self.chance.choice(sorted(self.graph))
        self.network.inject(name, self.nodes[name].start())

    def notice(self) -> None:
        """One end learns of a change; changes of one link in their order."""
        if not self.unnoticed:
            return
        _, name, other = self.chance.choice(self.unnoticed)
        first = next(notice for notice in self.unnoticed if notice[1:] == (name, other))
        self.unnoticed.remove(first)
        node = self.nodes[name]
        self.network.inject(name, node.neighbour_joined(other) if first[0] == "joined" else node.neighbour_lost(other))

    def deliver(self) -> None:
        for _ in range(self.chance.randrange(1, 12)):
            self.network.step()

    def settle(self) -> None:
        while self.unnoticed:
            self.notice()
            if self.chance.random() < 0.3:
                self.network.step()
        self.network.run(limit=100_000)


MOVES = ["add_leaf", "join", "cut", "mend", "crash", "restart", *["notice"] * 4, *["deliver"] * 4]


def assert_one_gatherer_in_each_part(overlay: Overlay) -> None:
    for part in nx.connected_components(overlay.graph):
        centres = tuple(sorted(nx.center(overlay.graph.subgraph(part))))
        nodes = [overlay.nodes[name] for name in sorted(part)]
        assert len({node.round for node in nodes}) == 1
        assert {node.centres for node in nodes} == {centres}
        assert [node.name for node in nodes if node.is_gatherer] == [centres[0]]
        assert all(set(node.neighbours) == set(overlay.graph[node.name]) for node in nodes)


@given(chances, st.integers(1, 12), st.lists(st.sampled_from(MOVES), max_size=50))
def test_after_any_changes_each_part_agrees_on_its_true_centre(chance, brokers, moves):
    overlay = Overlay(chance, brokers)
    for _ in range(brokers - 2):
        overlay.join()
    for move in moves:
        getattr(overlay, move)()
    overlay.settle()
    assert_one_gatherer_in_each_part(overlay)


@pytest.mark.parametrize("patience", [0.0, 0.5, 1.0])
def test_after_long_stories_too(patience):
    for seed in range(80):
        overlay = Overlay(random.Random(seed), 10, patience)
        for _ in range(100):
            getattr(overlay, overlay.chance.choice(MOVES))()
        overlay.settle()
        assert_one_gatherer_in_each_part(overlay)


@settings(max_examples=20, deadline=None)
@given(chances)
def test_two_settled_parts_become_one_and_fall_apart_again(chance):
    overlay = Overlay(chance, 20)
    for _ in range(18):
        overlay.join()
    overlay.settle()
    assert nx.number_connected_components(overlay.graph) == 2
    assert_one_gatherer_in_each_part(overlay)
    overlay.join()
    overlay.settle()
    assert nx.is_connected(overlay.graph)
    assert_one_gatherer_in_each_part(overlay)
    overlay.cut()
    overlay.settle()
    assert_one_gatherer_in_each_part(overlay)
