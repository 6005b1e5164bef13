"""Overlays to try things on: drawn by a seed, or real networks by name.

The same arguments give the same overlay in every process and on every machine: all randomness comes from one
`random.Random`, and nothing goes by the order of a set. Every overlay is connected.
"""

from __future__ import annotations

import difflib
import importlib.resources
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from itertools import combinations
from random import Random
from typing import Any, Final, TypeAlias

import networkx as nx
from networkx.utils import UnionFind

from tidings.control import Link
from tidings.errors import BadOverlay, CannotRun
from topology.naming import broker_names, distinct
from topology.overlay import Overlay, check

MOST_BROKERS: Final = 10_000

_DEGREE = 4
_ATTACH = 2
_EDGES = 3
_ALPHA = 0.15
_LEAST_ALPHA = 0.01
_DIAGONAL = math.sqrt(2)
_SAMPLE = 2_000

_Pair: TypeAlias = tuple[int, int]
_Bridge: TypeAlias = Callable[[Sequence[int], Sequence[int]], _Pair]


@dataclass(frozen=True, slots=True)
class OverlayKind:
    """A kind of overlay: how its links are drawn, and what each of its parameters means."""

    draw: Callable[..., Iterable[_Pair]]
    parameters: Mapping[str, str]


def generate(kind: str, brokers: int, seed: int, **parameters: float) -> Overlay:
    """An overlay of a kind (`KINDS` says which there are) with this many brokers, drawn by a seed.

    Brokers are `b1`, `b2` and so on, with zeros in front so that names sort like numbers. Every link costs 1. Raises
    `BadOverlay` for what cannot be, and says what can.
    """
    if kind not in KINDS:
        raise BadOverlay(f"there is no kind of overlay {kind!r}{_close_to(kind, KINDS)}; there are: {', '.join(KINDS)}")
    _whole("brokers", brokers, 1, MOST_BROKERS)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadOverlay(f"seed = {seed!r} is not allowed: it must be a whole number")
    allowed = KINDS[kind].parameters
    for name in parameters:
        if name not in allowed:
            raise BadOverlay(f"overlays of kind {kind!r} have no parameter {name!r}; allowed: {', '.join(allowed) or 'none'}")
    pairs = KINDS[kind].draw(brokers, Random(seed), **parameters)
    width = len(str(brokers))
    return _joined([f"b{number:0{width}}" for number in range(1, brokers + 1)], [(u, v, 1) for u, v in pairs])


# ---- kinds ------------------------------------------------------------------------------------------------------------


def _random(brokers: int, rng: Random, degree: float | None = None) -> list[_Pair]:
    """The graph G(n, m) of Erdős and Rényi, made connected with m kept."""
    graph = nx.gnm_random_graph(brokers, _links_for(degree, brokers), seed=rng)
    return _connect(brokers, graph.edges, lambda joined, part: (rng.choice(joined), rng.choice(part)), rng)


def _waxman(brokers: int, rng: Random, degree: float | None = None, alpha: float = _ALPHA) -> list[_Pair]:
    """Waxman's graph: brokers at random places in a square, linked with a probability of ``beta * exp(-d / (alpha * L))``.

    L is the diagonal of the square, and beta follows from the degree, or the overlay would grow denser with every broker.
    A probability above 1 counts as 1. The few parts that remain are joined where they are closest. Candidates are drawn
    with the probability beta first, so that not each of the millions of pairs of a large overlay has its distance taken.
    """
    if not _is_number(alpha) or not _LEAST_ALPHA <= alpha <= 1:
        raise BadOverlay(f"alpha = {alpha!r} is not allowed: it must be a number from {_LEAST_ALPHA} to 1")
    wanted = _links_for(degree, brokers)
    if wanted == math.comb(brokers, 2):
        return list(combinations(range(brokers), 2))
    places = [(rng.random(), rng.random()) for _ in range(brokers)]

    def weight(u: int, v: int) -> float:
        return math.exp(-math.dist(places[u], places[v]) / (alpha * _DIAGONAL))

    def closest(joined: Sequence[int], part: Sequence[int]) -> _Pair:
        near = [(u, min(joined, key=lambda v: math.dist(places[u], places[v]))) for u in part]
        return min(near, key=lambda pair: math.dist(places[pair[0]], places[pair[1]]))

    sample = _sample_of_pairs(brokers, rng)
    beta = _factor([weight(u, v) for u, v in sample], wanted / math.comb(brokers, 2) * len(sample))
    first = min(beta, 1.0)
    drawn = [(u, v) for u, v in _thinned_pairs(brokers, first, rng) if rng.random() * first < beta * weight(u, v)]
    return _connect(brokers, drawn, closest, rng)


def _scale_free(brokers: int, rng: Random, attach: int | None = None) -> list[_Pair]:
    """The graph of Barabási and Albert: each new broker links to some that are there, the more links the likelier.

    It begins with a star. Written out, as the function in networkx goes by the order of a set.
    """
    if attach is None:
        attach = min(_ATTACH, brokers - 1)
    else:
        _whole("attach", attach, 1, brokers - 1)
    pairs = [(0, new) for new in range(1, attach + 1)]
    ends = [end for pair in pairs for end in pair]
    for new in range(attach + 1, brokers):
        chosen: dict[int, None] = {}
        while len(chosen) < attach:
            chosen[rng.choice(ends)] = None
        pairs += [(old, new) for old in chosen]
        ends += [*chosen, *[new] * attach]
    return pairs


def _tree(brokers: int, rng: Random) -> list[_Pair]:
    """Each of the n^(n-2) labelled trees is equally likely."""
    return list(nx.random_labeled_tree(brokers, seed=rng).edges)


def _chain(brokers: int, _rng: Random, core: int | None = None, edges: int | None = None) -> list[_Pair]:
    """A chain of core brokers with as many edge brokers at each; the ADOCK paper's evaluation has 4 with 3 each.

    Core brokers come first, then the edge brokers of the first, of the second and so on.
    """
    if core is not None:
        _whole("core", core, 1, brokers)
    if edges is not None:
        _whole("edges", edges, 0, brokers - 1)
    if edges is None:
        edges = _EDGES if core is None else max(brokers // core - 1, 0)
    if core is None:
        core = max(brokers // (edges + 1), 1)
    if core * (edges + 1) != brokers:
        raise BadOverlay(
            f"a chain of {core} core brokers with {edges} edge brokers each has {core * (edges + 1)} brokers, not {brokers};"
            " brokers must be core * (edges + 1)"
        )
    along = [(place, place + 1) for place in range(core - 1)]
    return along + [(place, core + place * edges + number) for place in range(core) for number in range(edges)]


_DEGREE_MEANS = f"the mean number of neighbours, from that of a tree to that of a full mesh; {_DEGREE} if not said"

KINDS: Final[Mapping[str, OverlayKind]] = {
    "random": OverlayKind(_random, {"degree": _DEGREE_MEANS}),
    "waxman": OverlayKind(
        _waxman, {"degree": _DEGREE_MEANS, "alpha": f"how far links reach, from {_LEAST_ALPHA} to 1; {_ALPHA} if not said"}
    ),
    "scale-free": OverlayKind(_scale_free, {"attach": f"how many links each new broker brings; {_ATTACH} if not said"}),
    "tree": OverlayKind(_tree, {}),
    "chain": OverlayKind(
        _chain,
        {
            "core": "how many core brokers; if not said, as many as there are brokers for",
            "edges": f"how many edge brokers at each; {_EDGES} if core is not said either",
        },
    ),
}


# ---- real networks ----------------------------------------------------------------------------------------------------


def networks() -> tuple[str, ...]:
    """The names of the real networks that `named` knows."""
    return tuple(sorted(_files(_data(), "")))


def named(name: str, costs: bool = False) -> Overlay:
    """A real network by its name in topohub, such as `topozoo/Abilene` or `sndlib/germany50`.

    With ``costs`` a link costs its length in kilometres, but at least 1: two sites in one town are 0 apart, and a link
    that costs nothing would hide what crosses it.
    """
    data = _data()
    known = sorted(_files(data, ""))
    if name not in known:
        groups = ", ".join(sorted({network.partition("/")[0] + "/…" for network in known}))
        raise BadOverlay(f"there is no network {name!r}{_close_to(name, known)}; there are {len(known)} networks: {groups}")
    # Not topohub.get, which leaves the file open and reads it in the encoding of the machine.
    network = json.loads(data.joinpath(*f"{name}.json".split("/")).read_text(encoding="utf-8"))
    place = {node["id"]: at for at, node in enumerate(network["nodes"])}
    labels = broker_names(node.get("name") or "" for node in network["nodes"])
    return _joined(
        labels, [(place[e["source"]], place[e["target"]], max(e["dist"], 1) if costs else 1) for e in network["edges"]]
    )


def _data() -> Traversable:
    try:
        import topohub
    except ImportError:
        raise CannotRun("real networks come with the package topohub: pip install 'tidings[experiments]'") from None
    return importlib.resources.files(topohub) / "data"


def _files(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield prefix + entry.name.removesuffix(".json")


# ---- drawing ----------------------------------------------------------------------------------------------------------


def _connect(brokers: int, pairs: Iterable[_Pair], bridge: _Bridge, rng: Random) -> list[_Pair]:
    """Join the parts by one link each, and take away as many links that no part needs, so that the degree stays.

    ``bridge`` chooses the link between what is joined already and the next part. Links are only added, not taken away,
    where all of them are needed.
    """
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    union = UnionFind(range(brokers))
    needed: list[_Pair] = []
    spare: list[_Pair] = []
    for u, v in shuffled:
        (spare if union[u] == union[v] else needed).append((u, v))
        union.union(u, v)
    parts: dict[int, list[int]] = {}
    for broker in range(brokers):
        parts.setdefault(union[broker], []).append(broker)
    joined, *others = sorted(parts.values(), key=len, reverse=True)
    bridges: list[_Pair] = []
    for part in others:
        bridges.append(bridge(joined, part))
        joined.extend(part)
    return needed + bridges + spare[len(bridges) :]


def _sample_of_pairs(brokers: int, rng: Random) -> list[_Pair]:
    """All pairs if there are few, otherwise some."""
    if math.comb(brokers, 2) <= _SAMPLE:
        return list(combinations(range(brokers), 2))
    return [(u, v) for u, v in (rng.sample(range(brokers), 2) for _ in range(_SAMPLE))]


def _factor(weights: Sequence[float], total: float) -> float:
    """The factor by which weights that are cut off at 1 add up to a total, which must be less than their number.

    >>> _factor([0.5, 0.1, 0.1], 1.4)
    2.0
    """
    rising = sorted(weights)
    sums = [0.0]
    for weight in rising:
        sums.append(sums[-1] + weight)
    for cut, weight in enumerate(reversed(rising)):
        factor = (total - cut) / sums[len(rising) - cut]
        if factor * weight <= 1:
            return factor
    return 1 / rising[0]


def _thinned_pairs(brokers: int, probability: float, rng: Random) -> Iterator[_Pair]:
    """Each pair with the same probability, in time that goes by the pairs drawn: it leaps over those that are not."""
    if probability >= 1:
        yield from combinations(range(brokers), 2)
        return
    log_not = math.log1p(-probability)
    u, v = -1, 1
    while True:
        u += 1 + int(math.log(1 - rng.random()) / log_not)
        while u >= v and v < brokers:
            u, v = u - v, v + 1
        if v >= brokers:
            return
        yield u, v


def _joined(names: Sequence[str], pairs: Iterable[tuple[int, int, float]]) -> Overlay:
    """The overlay of pairs of numbered brokers and their costs."""
    ends = sorted((min(names[u], names[v]), max(names[u], names[v]), cost) for u, v, cost in pairs)
    called = distinct(f"{a}-{b}" for a, b, _ in ends)
    overlay = Overlay(tuple(names), tuple(Link(name, a, b, cost) for name, (a, b, cost) in zip(called, ends, strict=True)))
    check(overlay)
    return overlay


# ---- parameters -------------------------------------------------------------------------------------------------------


def _links_for(degree: float | None, brokers: int) -> int:
    """How many links give a mean degree."""
    if degree is None:
        degree = min(_DEGREE, brokers - 1)
    if not _is_number(degree):
        raise BadOverlay(f"degree = {degree!r} is not allowed: it must be a number")
    links = round(brokers * degree / 2)
    if not brokers - 1 <= links <= math.comb(brokers, 2):
        least = math.ceil(2000 * (brokers - 1) / brokers) / 1000
        raise BadOverlay(
            f"degree = {degree!r} is not allowed: {brokers} connected brokers have a mean degree from {least:g} to {brokers - 1}"
        )
    return links


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        allowed = f"a whole number from {least} to {most}" if least <= most else f"at least {least + 1} brokers are needed for it"
        raise BadOverlay(f"{name} = {value!r} is not allowed: {allowed}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _close_to(name: str, known: Iterable[str]) -> str:
    """The known names like this one, also by their last part, whatever the case."""
    spellings: dict[str, str] = {}
    for whole in known:
        spellings.setdefault(whole.lower(), whole)
        spellings.setdefault(whole.rpartition("/")[2].lower(), whole)
    close = dict.fromkeys(spellings[spelling] for spelling in difflib.get_close_matches(str(name).lower(), spellings, n=3))
    return f" (did you mean {' or '.join(close)}?)" if close else ""
