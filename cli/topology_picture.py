"""An overlay and the routing tree of a topic as a picture."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import combinations, pairwise
from math import dist
from pathlib import Path
from typing import Any

import networkx as nx

from cli import show
from cli.topology_trees import ShownRouting
from tidings.control import Link
from tidings.errors import CannotRun, TidingsError
from topology.plan import Plan

_MOST_DRAWN, _MANY, _SEEDS = 499, 60, 8  # networkx lays out more brokers only with scipy
_LOOK = {"svg.hashsalt": "tidings", "text.parse_math": False, "legend.frameon": False, "axes.titlelocation": "left"}
_BLUE, _ORANGE, _GREEN, _GREY, _DARK = "#0072B2", "#E69F00", "#009E73", "#B8B8B8", "#333333"
_BELOW = {"xytext": (0, -17), "textcoords": "offset points", "va": "top", "bbox": {"color": "white", "alpha": 0.75, "pad": 0.2}}


def write_picture(file: Path, plan: Plan, routing: ShownRouting | None) -> None:
    """The same data gives the same file: no date, and ids that do not change."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CannotRun("a picture needs matplotlib, which is not installed: pip install 'tidings[experiments]'") from error
    if (count := len(plan.overlay.brokers)) > _MOST_DRAWN:
        raise CannotRun(f"a picture shows up to {_MOST_DRAWN} brokers, and there are {count:,}")
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names may have letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        inches = 3.5 + count**0.5
        figure = Figure(figsize=(1.2 * inches, inches), layout="constrained")
        _draw(figure.add_subplot(), plan, routing)
        try:
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        except OSError as error:
            raise TidingsError(f"{file} cannot be written: {error.strerror or error}") from error
    show.remark(f"written: {file}")


def _draw(axes: Any, plan: Plan, routing: ShownRouting | None) -> None:
    (graph, places), overlay, control = _placed(plan, routing), plan.overlay, plan.snapshot
    size, short = 560 if len(graph) <= _MANY else 110, max(map(len, graph)) <= 4

    def links(label: str, chosen: Iterable[Link], **look: Any) -> None:
        pairs = [(link.a, link.b) for link in overlay.links if link in chosen]
        nx.draw_networkx_edges(graph, places, pairs, ax=axes, label=label if pairs else None, **look)

    def brokers(label: str, chosen: Iterable[str | None], scale: float, **look: Any) -> None:
        nodes = [broker for broker in graph if broker in chosen]
        nx.draw_networkx_nodes(graph, places, nodes, scale * size, ax=axes, label=label if nodes else None, **look)

    used: set[Link] = set(routing.links) if routing else set()
    closed = {link for link in overlay.links if routing and routing.topic in link.forbid}
    links("link", set(overlay.links) - used - closed, edge_color=_GREY)
    links("link that may not carry it", closed, edge_color=_GREY, style=":")
    links("link of the routing tree", used, edge_color=_BLUE, width=3.5)
    told = set(routing.subscriptions) if routing else {each.broker for each in control.subscriptions.values()}
    advertised = routing.advertised if routing else frozenset().union(*control.advertised.values())
    hubs = [tree.part.hub if routing.meets else tree.part.gatherer for tree in routing.trees] if routing else []
    brokers("gathers" if routing and routing.manner.gathers else "rendezvous", hubs, 5, node_color=_GREEN, node_shape="*")
    brokers("advertises", advertised, 1.7, node_color="white", edgecolors=_ORANGE, linewidths=2.5)
    brokers("has subscriptions", told, 1, node_color=_BLUE, edgecolors=_DARK)
    brokers("broker", set(graph) - told, 1, node_color="white", edgecolors=_DARK)
    for broker, place in places.items() if len(graph) <= 120 else ():
        inside = {"va": "center", "color": "white" if broker in told else _DARK}
        axes.annotate(broker, place, ha="center", fontsize=8, **(inside if short else _BELOW))
    axes.set_title(show.printable(routing.topic)[:60] if routing else "The overlay", fontweight="bold")
    axes.set_axis_off()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, markerscale=0.6)


def _placed(plan: Plan, routing: ShownRouting | None) -> tuple[Any, Any]:
    """The overlay as a graph, and a place for each broker: of some layouts the one that keeps brokers best apart."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(plan.overlay.brokers)
    graph.add_edges_from(pairwise(map(min, plan.overlay.parts)), weight=0.1)  # else parts would fly apart
    for link in plan.overlay.links:  # the tree is to unfold, the other links may be long
        graph.add_edge(link.a, link.b, weight=0.2 if routing and routing.links and link not in routing.links else 1)
    seeds = range(_SEEDS if len(graph) <= _MANY else 1)
    layouts = [nx.spring_layout(graph, 2 / len(graph) ** 0.5, seed=seed, iterations=200) for seed in seeds]
    return graph, max(layouts, key=lambda places: min((dist(a, b) for a, b in combinations(places.values(), 2)), default=0))
