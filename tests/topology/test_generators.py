"""Generated overlays: connected, the same for the same seed, of the shape that was asked for; and real networks."""

from __future__ import annotations

import math
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.control import Snapshot
from tidings.control.files import check as check_record
from tidings.errors import BadOverlay, CannotRun
from topology.generators import KINDS, MOST_BROKERS, generate, named, networks
from topology.overlay import Overlay, Problem, check, of_snapshot, to_records

sizes = st.integers(1, 60)
seeds = st.integers(0, 2**64)


def size_for(kind: str, brokers: int) -> int:
    """A chain with three edge brokers at each core broker has four, eight, twelve ..."""
    return brokers * 4 if kind == "chain" else brokers


def degrees(overlay: Overlay) -> list[int]:
    return sorted(len(overlay.neighbours(broker)) for broker in overlay.brokers)


def mean_degree(overlay: Overlay) -> float:
    return 2 * len(overlay.links) / len(overlay.brokers)


def ends(overlay: Overlay) -> list[tuple[str, str]]:
    return [(link.a, link.b) for link in overlay.links]


# ---- every kind -------------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(KINDS)), sizes, seeds)
def test_every_overlay_is_whole_and_repeatable(kind: str, brokers: int, seed: int):
    brokers = size_for(kind, brokers)
    overlay = generate(kind, brokers, seed)
    check(overlay)
    assert len(overlay.brokers) == brokers
    assert {link.cost for link in overlay.links} <= {1}
    assert generate(kind, brokers, seed) == overlay


@given(st.sampled_from(["random", "waxman"]), st.integers(2, 60), seeds, st.data())
def test_every_degree_that_is_possible_gives_a_whole_overlay(kind: str, brokers: int, seed: int, data: st.DataObject):
    degree = data.draw(st.floats(2 * (brokers - 1) / brokers, brokers - 1))
    overlay = generate(kind, brokers, seed, degree=degree)
    check(overlay)
    if kind == "random":
        assert len(overlay.links) == round(brokers * degree / 2), "joining the parts costs no link"


def declared(overlay: Overlay) -> tuple[Overlay, tuple[Problem, ...]]:
    """What a service makes of the records of an overlay."""
    records = {f"{record['kind']}/{record['name']}": record for record in to_records(overlay)}
    assert len(records) == len(overlay.brokers) + len(overlay.links)
    for key, record in records.items():
        check_record(key, record)
    return of_snapshot(Snapshot(records=records))


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_takes_the_records_of_an_overlay(kind: str):
    overlay = generate(kind, 24, seed=7)
    assert declared(overlay) == (overlay, ())


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"chain"}))
def test_another_seed_gives_another_overlay(kind: str):
    assert len({generate(kind, 40, seed) for seed in range(8)}) == 8


PRINT = """
import hashlib, json
from topology.generators import KINDS, generate
from topology.overlay import to_records
for kind in KINDS:
    # The sparsest that can be, as then there are parts to join.
    for parameters in ({}, {"degree": 2}) if "degree" in KINDS[kind].parameters else ({},):
        records = to_records(generate(kind, 80, 11, **parameters))
        print(kind, *parameters, hashlib.sha256(json.dumps(records).encode()).hexdigest()[:16])
"""
KNOWN = """
random 493364d149c23422
random degree 5942c56efd2adaf2
waxman deb8a9c9fb8f1c66
waxman degree 14da3f441cb8d2c5
scale-free 83a55ca257240a05
tree 5d4fdab8e60eee23
chain 574d91ce57c07a15
"""


def test_every_process_gives_the_same_overlay():
    """The digests are of overlays on record: a change here changes what an experiment's seed means."""
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", PRINT],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.strip() == KNOWN.strip()


@pytest.mark.parametrize(
    ("brokers", "first", "last"), [(1, "b1", "b1"), (9, "b1", "b9"), (10, "b01", "b10"), (1000, "b0001", "b1000")]
)
def test_names_sort_like_numbers(brokers: int, first: str, last: str):
    overlay = generate("tree", brokers, seed=1)
    assert (overlay.brokers[0], overlay.brokers[-1]) == (first, last)
    assert [int(name[1:]) for name in overlay.brokers] == list(range(1, brokers + 1))
    assert all(link.name == f"{link.a}-{link.b}" and link.a < link.b for link in overlay.links)


@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_brokers_take_no_time(kind: str):
    start = time.process_time()
    overlay = generate(kind, 3200, seed=5)
    assert time.process_time() - start < 3
    assert overlay.is_connected


# ---- shapes -----------------------------------------------------------------------------------------------------------


def test_a_random_overlay_has_the_degrees_of_a_random_graph():
    overlay = generate("random", 3200, seed=3, degree=6)
    assert len(overlay.links) == 9600
    found = Counter(degrees(overlay))
    for degree in range(2, 11):
        expected = 3200 * math.exp(-6) * 6**degree / math.factorial(degree)
        assert found[degree] == pytest.approx(expected, rel=0.25)


def test_joining_parts_does_not_make_a_hub():
    assert max(degrees(generate("random", 3200, seed=3, degree=2))) < 15


@pytest.mark.parametrize("degree", [2, 3, 6, 12])
@pytest.mark.parametrize("brokers", [30, 300, 1000])
def test_a_waxman_overlay_has_about_the_degree_asked_for(brokers: int, degree: int):
    found = [mean_degree(generate("waxman", brokers, seed, degree=degree)) for seed in range(4)]
    assert sum(found) / len(found) == pytest.approx(degree, rel=0.1)


def test_links_of_a_waxman_overlay_grow_rarer_with_distance_as_alpha_says():
    """Between pairs 0.15 and 0.55 apart, the share that is linked falls by the factor exp(-0.4 / (alpha * L))."""
    pairs, linked = Counter(), Counter()
    for seed in range(3):
        overlay = generate("waxman", 500, seed, degree=10, alpha=0.25)
        # The places are what the seed gives first.
        rng = Random(seed)
        places = {broker: (rng.random(), rng.random()) for broker in overlay.brokers}
        for a, b in combinations(overlay.brokers, 2):
            distance = int(math.dist(places[a], places[b]) * 10)
            pairs[distance] += 1
            linked[distance] += b in overlay.neighbours(a)
    falls = (linked[5] / pairs[5]) / (linked[1] / pairs[1])
    assert falls == pytest.approx(math.exp(-0.4 / (0.25 * math.sqrt(2))), rel=0.15)


def test_parts_of_a_waxman_overlay_are_joined_by_near_brokers():
    """Where hardly any link is drawn by chance, joining parts where they are closest leaves short ways only: no hubs."""
    assert max(degrees(generate("waxman", 500, seed=1, degree=2, alpha=0.02))) < 12


def test_a_full_mesh_when_every_link_is_asked_for():
    for kind in ("random", "waxman"):
        assert degrees(generate(kind, 7, seed=1, degree=6)) == [6] * 7
        assert degrees(generate(kind, 3, seed=1)) == [2] * 3, "a default degree that is too much becomes what is possible"


@pytest.mark.parametrize("attach", [1, 2, 5])
def test_a_scale_free_overlay_has_hubs(attach: int):
    overlay = generate("scale-free", 2000, seed=4, attach=attach)
    assert len(overlay.links) == attach + (2000 - attach - 1) * attach
    found = degrees(overlay)
    # Of the brokers, 2m(m + 1) / (k(k + 1)(k + 2)) have k neighbours, so with m = k it is 2 / (m + 2).
    assert found.count(attach) / 2000 == pytest.approx(2 / (attach + 2), rel=0.1)
    assert found[-1] > 40 * attach**0.5, "in a random graph, no broker would have nearly as many neighbours"


def test_every_labelled_tree_is_equally_likely():
    """There are 4^2 = 16 trees of four brokers."""
    trees = Counter(tuple(ends(generate("tree", 4, seed))) for seed in range(3200))
    assert len(trees) == 16
    assert all(count == pytest.approx(200, abs=60) for count in trees.values())
    assert {len(tree) for tree in trees} == {3}


def test_the_chain_of_the_adock_paper():
    """Four core brokers in a row, three edge brokers at each: sixteen brokers and fifteen links."""
    assert ends(generate("chain", 16, seed=0)) == [
        ("b01", "b02"), ("b01", "b05"), ("b01", "b06"), ("b01", "b07"),
        ("b02", "b03"), ("b02", "b08"), ("b02", "b09"), ("b02", "b10"),
        ("b03", "b04"), ("b03", "b11"), ("b03", "b12"), ("b03", "b13"),
        ("b04", "b14"), ("b04", "b15"), ("b04", "b16"),
    ]  # fmt: skip
    assert generate("chain", 16, seed=0) == generate("chain", 16, seed=9, core=4, edges=3)


@pytest.mark.parametrize(
    ("brokers", "parameters", "expected"),
    [
        (6, {"core": 3, "edges": 1}, [1, 1, 1, 2, 2, 3]),
        (6, {"core": 2}, [1, 1, 1, 1, 3, 3]),
        (6, {"edges": 2}, [1, 1, 1, 1, 3, 3]),
        (5, {"edges": 0}, [1, 1, 2, 2, 2]),
        (5, {"core": 1}, [1, 1, 1, 1, 4]),
        (1, {"core": 1}, [0]),
        (20, {}, [1] * 15 + [4, 4, 5, 5, 5]),
    ],
)
def test_chains_of_other_sizes(brokers: int, parameters: dict[str, int], expected: list[int]):
    assert degrees(generate("chain", brokers, seed=0, **parameters)) == expected


# ---- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "brokers", "parameters", "text"),
    [
        ("ring", 5, {}, "there is no kind of overlay 'ring'; there are: random, waxman, scale-free, tree, chain"),
        (
            "Waxmann",
            5,
            {},
            "there is no kind of overlay 'Waxmann' (did you mean waxman?); there are: random, waxman, scale-free,",
        ),
        ("tree", 0, {}, f"brokers = 0 is not allowed: a whole number from 1 to {MOST_BROKERS}"),
        ("tree", -3, {}, "brokers = -3 is not allowed: a whole number from 1 to 10000"),
        ("tree", 10**9, {}, "brokers = 1000000000 is not allowed: a whole number from 1 to 10000"),
        ("tree", 2.0, {}, "brokers = 2.0 is not allowed: a whole number"),
        ("tree", True, {}, "brokers = True is not allowed: a whole number"),
        ("tree", 5, {"degree": 3}, "overlays of kind 'tree' have no parameter 'degree'; allowed: none"),
        ("waxman", 5, {"beta": 3}, "overlays of kind 'waxman' have no parameter 'beta'; allowed: degree, alpha"),
        ("random", 10, {"degree": -1}, "degree = -1 is not allowed: 10 connected brokers have a mean degree from 1.8 to 9"),
        ("random", 10, {"degree": 1.5}, "degree = 1.5 is not allowed: 10 connected brokers have a mean degree from 1.8 to 9"),
        ("waxman", 10, {"degree": 10}, "degree = 10 is not allowed: 10 connected brokers have a mean degree from 1.8 to 9"),
        ("random", 10, {"degree": math.nan}, "degree = nan is not allowed: it must be a number"),
        ("random", 10, {"degree": "4"}, "degree = '4' is not allowed: it must be a number"),
        ("waxman", 10, {"alpha": 0}, "alpha = 0 is not allowed: it must be a number from 0.01 to 1"),
        ("waxman", 10, {"alpha": math.inf}, "alpha = inf is not allowed: it must be a number from 0.01 to 1"),
        ("scale-free", 10, {"attach": 10}, "attach = 10 is not allowed: a whole number from 1 to 9"),
        ("scale-free", 10, {"attach": 0}, "attach = 0 is not allowed: a whole number from 1 to 9"),
        ("scale-free", 1, {"attach": 1}, "attach = 1 is not allowed: at least 2 brokers are needed for it"),
        ("chain", 10, {"core": 0}, "core = 0 is not allowed: a whole number from 1 to 10"),
        ("chain", 10, {"edges": -1}, "edges = -1 is not allowed: a whole number from 0 to 9"),
        (
            "chain",
            15,
            {},
            "a chain of 3 core brokers with 3 edge brokers each has 12 brokers, not 15; brokers must be core * (edges + 1)",
        ),
        ("chain", 16, {"core": 5}, "a chain of 5 core brokers with 2 edge brokers each has 15 brokers, not 16"),
        ("chain", 16, {"core": 2, "edges": 3}, "a chain of 2 core brokers with 3 edge brokers each has 8 brokers, not 16"),
        ("chain", 2, {}, "a chain of 1 core brokers with 3 edge brokers each has 4 brokers, not 2"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(kind: str, brokers: Any, parameters: dict[str, Any], text: str):
    with pytest.raises(BadOverlay, match=f"^{re.escape(text)}"):
        generate(kind, brokers, 1, **parameters)


@pytest.mark.parametrize("seed", [1.5, "x", None, True])
def test_a_seed_is_a_whole_number(seed: Any):
    with pytest.raises(BadOverlay, match=f"^seed = {seed!r} is not allowed: it must be a whole number$"):
        generate("tree", 5, seed)


def test_the_least_degree_that_the_error_names_is_possible():
    for brokers in (2, 3, 7, 999, 3200):
        with pytest.raises(BadOverlay) as raised:
            generate("random", brokers, 1, degree=0)
        (least,) = re.findall(r"from (\S+) to", str(raised.value))
        assert len(generate("random", brokers, 1, degree=float(least)).links) in (brokers - 1, brokers)


# ---- real networks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def topohub() -> None:
    pytest.importorskip("topohub")


@pytest.mark.usefixtures("topohub")
def test_abilene():
    overlay = named("topozoo/Abilene")
    assert (len(overlay.brokers), len(overlay.links)) == (11, 14)
    assert list(overlay.neighbours("New-York")) == ["Chicago", "Washington-DC"]
    assert {link.cost for link in overlay.links} == {1}


@pytest.mark.usefixtures("topohub")
def test_a_link_may_cost_its_kilometres_but_never_nothing():
    overlay = named("topozoo/Abilene", costs=True)
    assert overlay.neighbours("New-York")["Washington-DC"].cost == pytest.approx(330, abs=10)
    assert overlay.neighbours("New-York")["Chicago"].cost == pytest.approx(1145, abs=15)
    assert min(link.cost for link in named("topozoo/Aarnet", costs=True).links) == 1


@pytest.mark.usefixtures("topohub")
@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        ("sndlib/germany50", 50),
        ("gabriel/25/0", 25),
        ("backbone/africa", 403),
        ("caida/2024-08/1221", 60),
        ("backbone/world", 3815),
    ],
)
def test_networks_are_whole_also_where_sites_have_no_name_or_the_same(name: str, brokers: int):
    overlay = named(name)
    assert len(overlay.brokers) == brokers
    assert declared(overlay) == (overlay, ())
    assert named(name) == overlay


@pytest.mark.usefixtures("topohub")
def test_the_names_of_networks():
    known = networks()
    assert list(known) == sorted(set(known))
    assert {"topozoo/Abilene", "sndlib/polska", "backbone/world", "gabriel/500/9"} <= set(known)


@pytest.mark.usefixtures("topohub")
def test_networks_come_from_the_package_and_not_from_the_internet(monkeypatch: pytest.MonkeyPatch):
    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_network)
    assert len(named("sndlib/polska").brokers) == 12
    assert networks()


@pytest.mark.usefixtures("topohub")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "abilene",
            r"there is no network 'abilene' \(did you mean sndlib/abilene or topozoo/Abilene\?\); there are \d+ networks: ",
        ),
        ("topozoo/Abilen", r"there is no network 'topozoo/Abilen' \(did you mean topozoo/Abilene"),
        ("germany", r"there is no network 'germany' \(did you mean sndlib/germany50"),
        (
            "0123456789" * 3,
            r"there is no network '\d+'; there are \d+ networks: backbone/…, caida/…, gabriel/…, sndlib/…, topozoo/…$",
        ),
        ("../data/topozoo/Abilene", r"there is no network '\.\./data/topozoo/Abilene' \(did you mean topozoo/Abilene"),
        ("", r"there is no network ''; "),
    ],
)
def test_an_unknown_network_is_refused_with_close_ones(name: str, text: str):
    with pytest.raises(BadOverlay, match=f"^{text}"):
        named(name)


def test_without_topohub_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "topohub", None)
    for ask in (networks, lambda: named("topozoo/Abilene")):
        with pytest.raises(CannotRun, match=re.escape("package topohub: pip install 'tidings[experiments]'")):
            ask()
