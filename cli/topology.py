"""`tidings topology`: the overlay and its routing trees to look at, and overlays to try things on."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cli import connecting, show
from cli.options import grouped
from tidings.errors import BadOverlay, CannotRun, TidingsError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree as DrawnTree

    from tidings.control import Link, Snapshot
    from tidings.topic import Timing
    from topology.islands import Island
    from topology.plan import Plan

app = typer.Typer(help="Look at the overlay, or make one up. Example: tidings topology show", no_args_is_help=True)

_MANNER = ("gatherer", "gatherers", "filter", "placement", "rendezvous")
_TOPIC_COLUMNS = ("topic", "gatherer", "brokers", "links", "longest way", "placement", "filter")
_NAMED = "named"
_GUIDE, _FACTS, _LABEL = 4, 32, 40  # columns of a drawn tree: for each level, about a broker, the least for a label
_MOST_DRAWN, _MANY, _SEEDS = 499, 60, 8  # networkx lays out more brokers only with scipy
_LOOK = {"svg.hashsalt": "tidings", "text.parse_math": False, "legend.frameon": False, "axes.titlelocation": "left"}
_BLUE, _ORANGE, _GREEN, _GREY, _DARK = "#0072B2", "#E69F00", "#009E73", "#B8B8B8", "#333333"
_BELOW = {"xytext": (0, -17), "textcoords": "offset points", "va": "top", "bbox": {"color": "white", "alpha": 0.75, "pad": 0.2}}


@app.command("show")
@grouped
def show_overlay(
    topic: Annotated[str | None, typer.Option(help="Show the routing tree of this topic.")] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE|-", help="Control records; no service is asked then.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture too; needs matplotlib.")] = None,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Show the brokers and links, who gathers each topic, and which way its messages take.

    Example: tidings topology show --topic incident --svg incident.svg

    Example: tidings topology generate tree --brokers 20 | tidings topology show --file -
    """
    from clients.control import read_control
    from streaming.broker.settings import timing_of
    from tidings.config import load
    from topology.plan import Plan

    timing = timing_of(load(None, os.environ))
    plan = Plan(_read(file, timing) if file else read_control(service.connect(), timing))
    routing = None if topic is None else _Routing(plan, topic)
    if svg is not None:
        _write_picture(svg, plan, routing)
    if as_json:
        show.as_json(_to_dict(plan, routing))
    elif routing is None:
        _print_overlay(plan)
    else:
        _print_routing(plan, routing)


def _read(file: Path, timing: Timing) -> Snapshot:
    from tidings.control import Snapshot, files

    if str(file) == "-":
        show.from_keyboard("control records")
        records = files.read_text(sys.stdin.read(), "stdin", timing)
    else:
        records = files.read_file(file, timing)
    snapshot = Snapshot(timing=timing)
    for version, (key, record) in enumerate(records, 1):
        snapshot = snapshot.apply(version, key, None if record is None else files.encode(record))
    return snapshot


@app.command("generate", no_args_is_help=True)
def generate(
    kind: Annotated[str, typer.Argument(help="random, waxman, scale-free, tree, chain; or named, with --network.")],
    brokers: Annotated[int | None, typer.Option(help="How many.", show_default="7, or 16 in a chain")] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another overlay.")] = 1,
    network: Annotated[str | None, typer.Option(help="A real network, by its name in topohub.", show_default=False)] = None,
) -> None:
    """Print the control records of an overlay, one on a line.

    Example: tidings topology generate random --brokers 7 | tidings control apply -

    Example: tidings topology generate named --network topozoo/Abilene
    """
    from topology import generators
    from topology.overlay import to_records

    if (kind == _NAMED) != (network is not None):
        raise BadOverlay(f"{_NAMED!r} and --network need each other: generate {_NAMED} --network topozoo/Abilene")
    if network is not None and brokers is not None:
        raise BadOverlay("a real network has the brokers that it has: leave --brokers out")
    if brokers is None:
        brokers = 16 if kind == "chain" else 7  # a chain has a core broker for every three at the edge
    for record in to_records(generators.named(network) if network else generators.generate(kind, brokers, seed)):
        show.as_json(record)


# ---- what there is to show --------------------------------------------------------------------------------------------


class _Tree(NamedTuple):
    """A routing tree as it is drawn: each broker with its parent, parents first, and two measures in links."""

    part: Island
    parents: Mapping[str, str | None]
    height: int
    longest_way: int

    def wanted(self, here: str, beyond: str) -> str:
        """What is wanted beyond a neighbour."""
        from tidings.predicate import render

        said = [render(entry.where) for entry in self.part.tree[here][beyond].entries]
        return "nobody" if not said else "everything" if "" in said else " or ".join(said)


class _Routing:
    """The routing of one topic, with a tree for each part; one without subscriptions has an empty tree."""

    def __init__(self, plan: Plan, topic: str) -> None:
        from tidings.topic import Filtering

        route = plan.route(topic)
        self.topic, self.manner = topic, route.manner
        found, windowed = plan.snapshot.by_topic, plan.snapshot.windowed
        counts = {at: len(found.get((at, topic), ())) + len(windowed.get((at, topic), ())) for at in plan.overlay.brokers}
        self.subscriptions = {at: count for at, count in counts.items() if count}
        self.advertised = plan.snapshot.advertised.get(topic, frozenset())
        self.meets = self.manner.filtering is Filtering.RENDEZVOUS
        self.trees = [self._tree(part) for part in route.parts]
        self.links: dict[Link, _Tree] = {}
        for tree in self.trees:
            used = [x for x in plan.overlay.links if tree.parents.get(x.a) == x.b or tree.parents.get(x.b) == x.a]
            self.links |= dict.fromkeys(used, tree)

    def _tree(self, part: Island) -> _Tree:
        from topology.centre import centre

        if not part.wanted:
            return _Tree(part, {}, 0, 0)
        nodes = {broker: sorted(links) for broker, links in part.tree.items()}
        nodes = nodes or {part.gatherer or min(part.brokers & self.subscriptions.keys()): []}
        root = part.hub if self.meets else part.gatherer
        if root is None or root not in nodes:  # nobody gathers: it is held by its middle, where it is the lowest
            root = centre(nodes)
        parents, height = _walked(nodes, root)
        # The one that is reached last is an end of a longest way.
        return _Tree(part, parents, height, _walked(nodes, list(parents)[-1])[1])

    def to_dict(self) -> dict[str, Any]:
        first = next((tree.part for tree in self.trees if tree.parents), None)
        return {
            "gatherer": first and first.gatherer,
            "gatherers": {min(tree.part.brokers): tree.part.gatherer for tree in self.trees},
            "filter": str(self.manner.filtering),
            "placement": str(self.manner.placement) if self.manner.gathers else "none",
            "rendezvous": (first.hub if first else self.manner.rendezvous) if self.meets else None,
            "subscriptions": sum(self.subscriptions.values()),
            "brokers": sum(len(tree.parents) for tree in self.trees),
            "links": len(self.links),
            "longest_way": max(tree.longest_way for tree in self.trees),
        }


def _walked(nodes: Mapping[str, Iterable[str]], start: str) -> tuple[dict[str, str | None], int]:
    """Each broker with the one before it, seen from the start, and how far the last one is."""
    parents: dict[str, str | None] = {start: None}
    hops = {start: 0}
    reached = [start]
    for broker in reached:
        for new in [neighbour for neighbour in nodes[broker] if neighbour not in parents]:
            parents[new], hops[new] = broker, hops[broker] + 1
            reached.append(new)
    return parents, hops[reached[-1]]


def _routings(plan: Plan) -> list[_Routing]:
    """Those of the topics that have subscriptions."""
    topics = {each.topic for each in plan.snapshot.subscriptions.values() if plan.has(each.broker)}
    return [_Routing(plan, topic) for topic in sorted(topics)]


def _to_dict(plan: Plan, routing: _Routing | None) -> dict[str, Any]:
    said: dict[str, Any] = {
        "brokers": list(plan.overlay.brokers),
        "links": [{"name": x.name, "a": x.a, "b": x.b, "cost": x.cost, "forbid": sorted(x.forbid)} for x in plan.overlay.links],
        "parts": [sorted(part) for part in plan.overlay.parts],
        "problems": [{"kind": str(problem.kind), "text": problem.text} for problem in plan.problems],
        "topics": {each.topic: each.to_dict() for each in _routings(plan)},
    }
    if routing is not None:
        said |= {"topic": routing.topic, "tree": []} | {name: routing.to_dict()[name] for name in _MANNER}
        for link, tree in routing.links.items():
            beyond = {"a": tree.wanted(link.b, link.a), "b": tree.wanted(link.a, link.b)}
            said["tree"].append({"name": link.name, "a": link.a, "b": link.b, "beyond": beyond})
    return said


# ---- in the terminal --------------------------------------------------------------------------------------------------


def _print_overlay(plan: Plan) -> None:
    overlay, routings = plan.overlay, _routings(plan)
    rows: list[tuple[str, ...]] = []
    for broker in overlay.brokers:
        near = ", ".join(f"{name}{_terms(link)}" for name, link in overlay.neighbours(broker).items())
        rows.append((broker, near, ", ".join(f"{x.topic} {n:,}" for x in routings if (n := x.subscriptions.get(broker)))))
    title = f"{show.count(len(overlay.brokers), 'broker')}, {show.count(len(overlay.links), 'link')}"
    show.console().print(_table(title, ("broker", "neighbours", "subscriptions"), rows))
    rows.clear()
    for each in routings:
        gatherers = ", ".join(tree.part.gatherer or "nobody" for tree in each.trees if tree.parents)
        said = each.to_dict() | {"topic": each.topic, "gatherer": gatherers}
        rows.append(tuple(str(said[column.replace(" ", "_")]) for column in _TOPIC_COLUMNS))
    if rows:
        show.console().print(_table(show.count(len(rows), "topic"), _TOPIC_COLUMNS, rows))
    else:
        print("Nobody subscribes to anything.")
    _print_problems(plan)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in ("brokers", "links", "longest way") else "left", overflow="fold")
    for first, *others in rows:
        table.add_row(Text(show.printable(first), style="bold"), *(Text(show.printable(other)) for other in others))
    return table


def _terms(link: Link) -> str:
    """What is special about a link."""
    terms = [f"cost {link.cost:g}"] * (link.cost != 1) + [f"not {topic}" for topic in sorted(link.forbid)]
    return f" ({', '.join(terms)})" if terms else ""


def _print_problems(plan: Plan) -> None:
    from rich.text import Text

    subscriptions = plan.snapshot.subscriptions.values()
    strays = [f"the subscription {x.name!r} is at {x.broker!r}" for x in subscriptions if x.broker not in plan.overlay.brokers]
    for problem in [each.text for each in plan.problems] + [f"{stray}, a broker that is not there" for stray in strays]:
        show.console().print(Text(f"Problem: {show.printable(problem)}", style="yellow"), soft_wrap=False)


def _print_routing(plan: Plan, routing: _Routing) -> None:
    from rich.text import Text

    console, wide, said = show.console(), show.console(), routing.to_dict()
    terms = [show.count(said["subscriptions"], "subscription"), f"placement {said['placement']}", f"filter {said['filter']}"]
    terms += [f"rendezvous {said['rendezvous']}"] * bool(said["rendezvous"])
    console.print(Text.assemble((show.printable(routing.topic), "bold"), f"  {', '.join(terms)}"))
    wanted = [tree for tree in routing.trees if tree.parents]
    for number, tree in enumerate(wanted, 1):
        if len(routing.trees) > 1:
            cut = f"Cut: part {number} of {len(routing.trees)}, {show.count(len(tree.part.brokers), 'broker')}"
            console.print(Text(cut, style="bold yellow"))
        drawn, wide.width = _drawn(routing, tree, console.width)
        wide.print(drawn, soft_wrap=False)
    arrows = ["↓ what is wanted there and beyond"] + ["↑ what is wanted the other way"] * (not routing.manner.gathers)
    outside = [broker for tree in wanted for broker in sorted(tree.part.brokers - tree.parents.keys())]
    unused = [f"{link.name}{_terms(link)}" for link in plan.overlay.links if wanted and link not in routing.links]
    silent = [broker for tree in routing.trees if not tree.parents for broker in sorted(tree.part.brokers)]
    stay = "Nobody subscribes, so messages stay where they are published: "
    for what, names in (("", arrows), ("Not in the tree: ", outside), ("Links not used: ", unused), (stay, silent)):
        if names and (routing.links or names is not arrows):
            console.print(Text(show.printable(f"{what}{', '.join(names)}"), style="dim"), soft_wrap=False)
    _print_problems(plan)


def _drawn(routing: _Routing, tree: _Tree, width: int) -> tuple[DrawnTree, int]:
    """A tree for the terminal, and the width it needs."""
    from rich.tree import Tree

    # Every level takes its columns. Where these would run out, a way without forks stays on one level.
    forks, squeezed = Counter(tree.parents.values()), tree.height * _GUIDE > width / 2
    drawn = Tree("", hide_root=True, guide_style="dim")
    branches: dict[str | None, tuple[int, Tree]] = {None: (-1, drawn)}
    runs: dict[str | None, tuple[int, Tree]] = {}
    arrow_at = min(_FACTS + (0 if squeezed else tree.height * _GUIDE), width // 2)
    for broker, parent in tree.parents.items():
        follows = squeezed and parent is not None and forks[parent] == 1
        level, above = runs[parent] if follows else branches[parent]
        label = _label(routing, tree, broker, "↳ " if follows else "", arrow_at - (level + 1) * _GUIDE)
        branches[broker] = level + 1, above.add(label)
        runs[broker] = runs[parent] if follows else branches[broker]
    return drawn, max(width, max(level for level, _ in branches.values()) * _GUIDE + _LABEL)


def _label(routing: _Routing, tree: _Tree, broker: str, start: str, arrow_at: int) -> Text:
    """A broker, what is done there, and what is wanted beyond the link to it; where nobody gathers, also the other way."""
    from rich.text import Text

    parent, told = tree.parents[broker], routing.subscriptions.get(broker, 0)
    does = ["gathers"] * (broker == tree.part.gatherer) + ["rendezvous"] * (routing.meets and broker == tree.part.hub)
    has = [show.count(told, "subscription")] * bool(told) + ["advertises"] * (broker in routing.advertised)
    label = Text(start, no_wrap=True, overflow="ellipsis").append("★ " * bool(does), style="bold green")
    label.append(broker, style="bold" if told or does else "").append(f"  {', '.join(does)}" * bool(does), style="bold green")
    label.append(f"  {', '.join(has)}" * bool(has))
    if parent is not None:
        label.append(" " * (arrow_at - label.cell_len))
        for arrow, here, beyond in [("↓", parent, broker)] + [("↑", broker, parent)] * (not routing.manner.gathers):
            label.append(f"  {arrow} ", style="dim").append(show.printable(tree.wanted(here, beyond)), style="cyan")
    return label


# ---- as a picture -----------------------------------------------------------------------------------------------------


def _write_picture(file: Path, plan: Plan, routing: _Routing | None) -> None:
    """The same data gives the same file: no date, and ids that do not change."""
    import warnings

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


def _draw(axes: Any, plan: Plan, routing: _Routing | None) -> None:
    import networkx as nx

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


def _placed(plan: Plan, routing: _Routing | None) -> tuple[Any, Any]:
    """The overlay as a graph, and a place for each broker: of some layouts the one that keeps brokers best apart."""
    from itertools import combinations, pairwise
    from math import dist

    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(plan.overlay.brokers)
    graph.add_edges_from(pairwise(map(min, plan.overlay.parts)), weight=0.1)  # else parts would fly apart
    for link in plan.overlay.links:  # the tree is to unfold, the other links may be long
        graph.add_edge(link.a, link.b, weight=0.2 if routing and routing.links and link not in routing.links else 1)
    seeds = range(_SEEDS if len(graph) <= _MANY else 1)
    layouts = [nx.spring_layout(graph, 2 / len(graph) ** 0.5, seed=seed, iterations=200) for seed in seeds]
    return graph, max(layouts, key=lambda places: min((dist(a, b) for a, b in combinations(places.values(), 2)), default=0))
