"""The command line: `tidings COMMAND`. Each command is a module beside this one.

A command starts in a fraction of a second because its module imports what it needs only when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from cli import (
    books,
    check,
    control,
    decisions,
    demo,
    experiment,
    explain,
    publish,
    replay,
    state,
    subscribe,
    topology,
    up,
    watch,
)
from tidings.errors import TidingsError

app = typer.Typer(
    name="tidings",
    help="Merges partial reports, drops what is already known, and tells each subscriber only the news.",
    epilog="Example: tidings up, and in another terminal: tidings subscribe ops --topic incident",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors are one line; --debug has Python's own trace
    context_settings={"help_option_names": ["-h", "--help"]},
)

_SERVICE, _CLIENTS = "The service", "Talking to a service"
app.command(rich_help_panel=_SERVICE)(up.up)
app.command(rich_help_panel=_SERVICE)(demo.demo)
app.command(rich_help_panel=_SERVICE, no_args_is_help=True)(check.check)
app.add_typer(state.app, name="state", rich_help_panel=_SERVICE)
app.command(rich_help_panel=_CLIENTS)(publish.publish)
app.command(rich_help_panel=_CLIENTS)(subscribe.subscribe)
app.command(rich_help_panel=_CLIENTS)(watch.watch)
app.command(rich_help_panel=_CLIENTS)(books.books)
app.command(rich_help_panel=_CLIENTS)(decisions.decisions)
app.command(rich_help_panel=_CLIENTS)(explain.explain)
app.command(rich_help_panel=_CLIENTS)(replay.replay)
app.add_typer(control.app, name="control", rich_help_panel=_CLIENTS)
app.add_typer(topology.app, name="topology", rich_help_panel=_CLIENTS)
app.command(rich_help_panel="The papers", no_args_is_help=True)(experiment.experiment)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tidings {version('tidings')}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace behind an error; may stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    del debug, version  # `run` looks for the first itself, as an error may come before this is called


@cache
def _program() -> Callable[..., object]:
    """All commands with their options, read from the code once: tests run hundreds of commands in one process."""
    return get_command(app)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point. Whatever goes wrong is said in one line, and the exit code says what kind it was."""
    debug, rest = _without_debug(sys.argv[1:] if arguments is None else list(arguments))
    try:
        _program()(args=rest, prog_name="tidings")
    except KeyboardInterrupt:
        sys.exit(130)
    except TidingsError as error:
        _complain(str(error), error, debug)
        sys.exit(error.exit_code)
    except Exception as error:
        hint = "" if debug else "; with --debug you see where. Please report it"
        _complain(f"this should not have happened: {type(error).__name__}: {error}{hint}", error, debug)
        sys.exit(1)
    sys.exit(0)


def _without_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """`--debug` may stand before or after the command; what follows `--` is not an option."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = arguments[:end]
    return "--debug" in options, [each for each in options if each != "--debug"] + arguments[end:]


def _complain(line: str, error: Exception, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exception(error)
    typer.secho(f"tidings: {line}", fg=typer.colors.RED, err=True)
