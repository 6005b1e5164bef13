"""The centre of a tree and its median: the least of all, on trees of every shape."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UnknownBroker
from topology.centre import centre, median, total_distance

Tree = dict[str, list[str]]


def hung(above: list[int]) -> Tree:
    """A tree in which each broker after the first hangs on one before it."""
    tree: Tree = {"b0": []}
    for number, choice in enumerate(above, 1):
        one, other = f"b{number}", f"b{choice % number}"
        tree[one] = [other]
        tree[other].append(one)
    return tree


def path(size: int) -> Tree:
    return hung(list(range(size - 1)))


trees = st.lists(st.integers(0, 11), max_size=11).map(hung)


@given(trees)
def test_the_farthest_broker_is_nearest_to_the_centre(tree):
    farthest = nx.eccentricity(nx.Graph(tree)) if len(tree) > 1 else {"b0": 0}
    assert centre(tree) == min(sorted(tree), key=lambda broker: farthest[broker])


@pytest.mark.parametrize(("size", "expected"), [(1, "b0"), (2, "b0"), (3, "b1"), (4, "b1"), (9, "b4"), (10_001, "b5000")])
def test_the_centre_of_a_path_is_its_middle(size, expected):
    assert centre(path(size)) == expected


def test_the_centre_of_a_star_is_its_middle():
    assert centre(hung([0] * 50)) == "b0"


def summed(tree, weights) -> dict[str, float]:
    hops = dict(nx.all_pairs_shortest_path_length(nx.Graph(tree)))
    return {one: sum(weights.get(other, 0) * hops[one][other] for other in tree) for one in tree}


@given(trees, st.data())
def test_the_median_is_the_least_of_all_sums_and_ties_go_to_the_smallest_name(tree, data):
    weights = data.draw(st.dictionaries(st.sampled_from(sorted(tree)), st.integers(0, 3)))
    sums = summed(tree, weights)
    assert total_distance(tree, weights) == sums
    assert median(tree, weights) == min(sorted(tree), key=lambda broker: sums[broker])


@given(trees, st.data())
def test_totals_hold_for_any_weights_and_the_order_of_the_tree_does_not_matter(tree, data):
    weights = data.draw(st.dictionaries(st.sampled_from(sorted(tree)), st.floats(0, 1e9)))
    totals = total_distance(tree, weights)
    assert totals == pytest.approx(summed(tree, weights))
    turned = {broker: list(reversed(tree[broker])) for broker in reversed(list(tree))}
    assert total_distance(turned, weights) == totals
    assert median(turned, weights) == median(tree, weights)


def test_the_median_is_not_the_centre():
    # A crowd at one end of a path pulls the median; the tail pulls the centre.
    tree = path(9)
    assert centre(tree) == "b4"
    assert median(tree, {"b0": 10.0, "b8": 1.0}) == "b0"


def test_without_weights_the_smallest_name_is_the_median():
    assert median(path(4), {}) == "b0"


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_a_weight_that_is_no_amount_is_refused(weight):
    with pytest.raises(ValueError, match="the weight of 'a'"):
        median({"a": []}, {"a": weight})


def test_a_weight_of_an_unknown_broker_is_refused():
    with pytest.raises(UnknownBroker, match="'z'"):
        total_distance({"a": []}, {"z": 1.0})
