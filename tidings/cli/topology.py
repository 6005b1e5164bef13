"""`tidings topology`: the overlay and its routing trees to look at, and overlays to try things on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli import reach, show
from tidings.errors import BadOverlay, CannotRun, TidingsError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from tidings.control import Link, Snapshot
    from topology.plan import Part, Plan
    from topology.profile import Profile

app = typer.Typer(help="Look at the overlay, or generate one. Example: tidings topology show", no_args_is_help=True)

_NAMED = "named"
_BROKERS = {"chain": 16}  # a chain has a core with three edge brokers at each of its own
_GUIDE_COLUMNS, _LEAST_LABEL, _ALIGNED = 4, 56, 60
_MOST_DRAWN = 499


def _complete(incomplete: str) -> list[str]:
    from topology.generators import KINDS

    return [kind for kind in (*KINDS, _NAMED) if kind.startswith(incomplete)]


@app.command("show")
def show_overlay(
    topic: Annotated[str | None, typer.Option(help="Show the routing tree of this topic.", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE|-", help="Control records to read; then no service is needed.")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw a picture too; needs matplotlib.")] = None,
    as_json: reach.AsJson = False,
    bootstrap_servers: reach.Servers = None,
    dir: reach.Directory = reach.DEFAULT_DIRECTORY,
    properties: reach.Properties = None,
) -> None:
    """Show the brokers and links, who gathers each topic, and which way its messages take.

    Example: tidings topology show --topic incident

    Example: tidings topology generate waxman --brokers 20 | tidings topology show --file - --svg overlay.svg
    """
    from producers.control import read_control
    from streaming.broker.settings import timing_of
    from tidings.config import load
    from topology.plan import Plan

    if svg is not None:
        _check_matplotlib()
    timing = timing_of(load(None, os.environ))
    if file is not None:
        snapshot = _of_file(file, timing)
    else:
        snapshot = read_control(reach.connect(bootstrap_servers, dir, properties), timing)
    plan = Plan(snapshot)
    routing = None if topic is None else _Routing.of(plan, topic)
    if svg is not None:
        _write_picture(svg, plan, routing)
        show.remark(f"written: {svg}")
    if as_json:
        show.as_json(_to_dict(plan, routing))
    elif routing is not None:
        _print_topic(plan, routing)
    else:
        _print_overlay(plan)


@app.command("generate", no_args_is_help=True)
def generate(
    kind: Annotated[
        str, typer.Argument(help="random, waxman, scale-free, tree, chain; or named, with --network.", autocompletion=_complete)
    ],
    brokers: Annotated[int | None, typer.Option(help="How many.", show_default="7, of a chain 16")] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another overlay.")] = 1,
    network: Annotated[str | None, typer.Option(help="A real network, as topohub calls it.", show_default=False)] = None,
) -> None:
    """Print control records that declare an overlay.

    Example: tidings topology generate random --brokers 7 | tidings control apply -

    Example: tidings topology generate named --network topozoo/Abilene
    """
    from topology import generators
    from topology.overlay import to_records

    if (kind == _NAMED) != (network is not None):
        raise BadOverlay(f"{_NAMED!r} and --network go together: tidings topology generate {_NAMED} --network topozoo/Abilene")
    if network is None:
        overlay = generators.generate(kind, _BROKERS.get(kind, 7) if brokers is None else brokers, seed)
    elif brokers is None:
        overlay = generators.named(network)
    else:
        raise BadOverlay("a real network has the brokers that it has: leave --brokers out")
    for record in to_records(overlay):
        show.as_json(record)


def _of_file(file: Path, timing: Any) -> Snapshot:
    from producers import control
    from tidings.control import Snapshot

    if str(file) == "-":
        show.from_keyboard("control records")
        records = control.read_text(sys.stdin.read(), "stdin", timing)
    else:
        records = control.read_file(file, timing)
    snapshot = Snapshot(timing=timing)
    for version, (key, record) in enumerate(records, 1):
        snapshot = snapshot.apply(version, key, None if record is None else control.encode(record))
    return snapshot


# ---- what there is to show --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tree:
    """The routing tree of one part, hung up at the broker that gathers; where none does, in its middle."""

    part: Part
    root: str
    parents: Mapping[str, str | None]
    """Parents come before their children."""
    longest: int
    """The most links between two of its brokers."""


@dataclass(frozen=True)
class _Routing:
    """The routing of one topic."""

    topic: str
    placement: str
    filtering: str
    rendezvous: str | None
    spreads: bool
    parts: tuple[Part, ...]
    trees: tuple[_Tree, ...]
    subscriptions: Mapping[str, int]
    advertised: frozenset[str]

    @staticmethod
    def of(plan: Plan, topic: str) -> _Routing:
        from tidings.topic import Filtering, Placement

        route = plan.route(topic)
        manner = route.manner
        subscribed = {at: len(found) for (at, name), found in plan.snapshot.by_topic.items() if name == topic}
        at_rendezvous = manner.filtering is Filtering.RENDEZVOUS
        trees = tuple(_hung(part, subscribed, at_rendezvous) for part in route.parts if part.wanted)
        return _Routing(
            topic,
            str(manner.placement if manner.gathers else Placement.NONE),
            str(manner.filtering),
            (trees[0].part.hub if trees else manner.rendezvous) if at_rendezvous else None,
            not manner.gathers,
            route.parts,
            trees,
            {broker: subscribed[broker] for broker in plan.overlay.brokers if broker in subscribed},
            plan.snapshot.advertised.get(topic, frozenset()),
        )

    @property
    def gatherer(self) -> str | None:
        return self.trees[0].part.gatherer if self.trees else None

    @property
    def gatherers(self) -> dict[str, str | None]:
        """By the first broker of each part."""
        return {min(part.brokers): part.gatherer for part in self.parts}

    @property
    def brokers(self) -> set[str]:
        return {broker for tree in self.trees for broker in tree.parents}

    @property
    def links(self) -> dict[frozenset[str], Part]:
        """The pairs of brokers that are linked in a tree."""
        return {frozenset((a, b)): tree.part for tree in self.trees for a, b in tree.parents.items() if b is not None}

    @property
    def longest(self) -> int:
        return max((tree.longest for tree in self.trees), default=0)


def _hung(part: Part, subscribed: Iterable[str], at_rendezvous: bool) -> _Tree:
    from topology.centre import elected

    nodes: Mapping[str, Iterable[str]] = part.tree or {part.gatherer or min(part.brokers.intersection(subscribed)): ()}
    hub = part.hub if at_rendezvous else part.gatherer
    root = hub if hub in nodes and hub is not None else elected({b: list(n) for b, n in nodes.items()}, patient=True).gatherer
    parents, _ = _walked(nodes, root)
    # The last one reached from anywhere is an end of a longest way.
    _, hops = _walked(nodes, list(parents)[-1])
    return _Tree(part, root, parents, max(hops.values()))


def _walked(nodes: Mapping[str, Iterable[str]], start: str) -> tuple[dict[str, str | None], dict[str, int]]:
    """Each broker's parent and its hops, seen from one of them, the nearest first."""
    parents: dict[str, str | None] = {start: None}
    hops = {start: 0}
    reached = [start]
    for broker in reached:
        for neighbour in sorted(nodes[broker]):
            if neighbour not in parents:
                parents[neighbour], hops[neighbour] = broker, hops[broker] + 1
                reached.append(neighbour)
    return parents, hops


def _subscribed_topics(plan: Plan) -> list[str]:
    return sorted({topic for broker, topic in plan.snapshot.by_topic if broker in plan.overlay.brokers})


def _wanted(profile: Profile) -> str:
    from tidings.predicate import render

    said = [render(entry.where) for entry in profile.entries]
    return "nobody" if not said else "everything" if "" in said else " or ".join(said)


# ---- for machines -----------------------------------------------------------------------------------------------------


def _to_dict(plan: Plan, routing: _Routing | None) -> dict[str, Any]:
    overlay = plan.overlay
    said: dict[str, Any] = {
        "brokers": list(overlay.brokers),
        "links": [{"name": x.name, "a": x.a, "b": x.b, "cost": x.cost, "forbid": sorted(x.forbid)} for x in overlay.links],
        "parts": [sorted(part) for part in overlay.parts],
        "problems": [{"kind": str(problem.kind), "text": problem.text} for problem in plan.problems],
        "topics": {topic: _topic_dict(_Routing.of(plan, topic)) for topic in _subscribed_topics(plan)},
    }
    if routing is not None:
        used = routing.links
        tree = [_link_dict(x, used[frozenset((x.a, x.b))]) for x in overlay.links if frozenset((x.a, x.b)) in used]
        said |= {"topic": routing.topic, "tree": tree, **_manner_dict(routing)}
    return said


def _manner_dict(routing: _Routing) -> dict[str, Any]:
    return {
        "gatherer": routing.gatherer,
        "gatherers": routing.gatherers,
        "filter": routing.filtering,
        "placement": routing.placement,
        "rendezvous": routing.rendezvous,
    }


def _topic_dict(routing: _Routing) -> dict[str, Any]:
    return {
        **_manner_dict(routing),
        "subscriptions": sum(routing.subscriptions.values()),
        "brokers": len(routing.brokers),
        "links": len(routing.links),
        "longest_way": routing.longest,
    }


def _link_dict(link: Link, part: Part) -> dict[str, Any]:
    beyond = {"a": _wanted(part.tree[link.b][link.a]), "b": _wanted(part.tree[link.a][link.b])}
    return {"name": link.name, "a": link.a, "b": link.b, "beyond": beyond}
