"""`tidings topology`: the overlay and its routing trees to look at, and overlays to try things on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import connecting, show
from cli.options import grouped
from tidings.errors import BadOverlay

if TYPE_CHECKING:
    from tidings.control import Snapshot
    from tidings.topic import Timing

app = typer.Typer(help="Look at the overlay, or make one up. Example: tidings topology show", no_args_is_help=True)

_NAMED = "named"


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
    from cli.topology_output import print_overlay, print_routing
    from cli.topology_trees import ShownRouting, to_dict
    from clients.control import read_control
    from streaming.broker.settings import timing_of
    from tidings.config import load
    from topology.plan import Plan

    timing = timing_of(load(None, os.environ))
    plan = Plan(_read(file, timing) if file else read_control(service.connect(), timing))
    routing = None if topic is None else ShownRouting(plan, topic)
    if svg is not None:
        from cli.topology_picture import write_picture

        write_picture(svg, plan, routing)
    if as_json:
        show.as_json(to_dict(plan, routing))
    elif routing is None:
        print_overlay(plan)
    else:
        print_routing(plan, routing)


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
