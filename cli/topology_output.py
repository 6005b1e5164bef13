"""An overlay and its routing trees in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from cli import show
from cli.topology_trees import ShownRouting, ShownTree, routings
from tidings.control import Link
from topology.plan import Plan

_TOPIC_COLUMNS = ("topic", "gatherer", "brokers", "links", "longest way", "placement", "filter")
_GUIDE, _FACTS, _LABEL = 4, 32, 40  # columns of a drawn tree: for each level, about a broker, the least for a label


def print_overlay(plan: Plan) -> None:
    overlay, topics = plan.overlay, routings(plan)
    rows: list[tuple[str, ...]] = []
    for broker in overlay.brokers:
        near = ", ".join(f"{name}{_terms(link)}" for name, link in overlay.neighbours(broker).items())
        rows.append((broker, near, ", ".join(f"{x.topic} {n:,}" for x in topics if (n := x.subscriptions.get(broker)))))
    title = f"{show.count(len(overlay.brokers), 'broker')}, {show.count(len(overlay.links), 'link')}"
    show.console().print(_table(title, ("broker", "neighbours", "subscriptions"), rows))
    rows.clear()
    for each in topics:
        gatherers = ", ".join(tree.part.gatherer or "nobody" for tree in each.trees if tree.parents)
        said = each.to_dict() | {"topic": each.topic, "gatherer": gatherers}
        rows.append(tuple(str(said[column.replace(" ", "_")]) for column in _TOPIC_COLUMNS))
    if rows:
        show.console().print(_table(show.count(len(rows), "topic"), _TOPIC_COLUMNS, rows))
    else:
        print("Nobody subscribes to anything.")
    _print_problems(plan)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
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
    subscriptions = plan.snapshot.subscriptions.values()
    strays = [f"the subscription {x.name!r} is at {x.broker!r}" for x in subscriptions if x.broker not in plan.overlay.brokers]
    for problem in [each.text for each in plan.problems] + [f"{stray}, a broker that is not there" for stray in strays]:
        show.console().print(Text(f"Problem: {show.printable(problem)}", style="yellow"), soft_wrap=False)


def print_routing(plan: Plan, routing: ShownRouting) -> None:
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


def _drawn(routing: ShownRouting, tree: ShownTree, width: int) -> tuple[Tree, int]:
    """A tree for the terminal, and the width it needs."""
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


def _label(routing: ShownRouting, tree: ShownTree, broker: str, start: str, arrow_at: int) -> Text:
    """A broker, what is done there, and what is wanted beyond the link to it; where nobody gathers, also the other way."""
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
