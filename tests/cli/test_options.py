"""Groups of options: typer sees every option by itself, the command gets the group."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from cli.options import grouped


@dataclass(frozen=True)
class Meal:
    dish: Annotated[str, typer.Option("--dish", help="What.")]
    plates: Annotated[int, typer.Option(min=1)] = 2


@grouped
def cook(name: Annotated[str, typer.Argument()], hot: bool = True, *, meal: Meal) -> None:
    """Cooks."""
    print(name, hot, meal)


def test_a_command_gets_what_was_said_as_its_group():
    app = typer.Typer()
    app.command()(cook)
    said = CliRunner().invoke(app, ["ann", "--dish", "soup", "--no-hot"])
    assert said.output == "ann False Meal(dish='soup', plates=2)\n"
    assert CliRunner().invoke(app, ["ann", "--dish", "soup", "--plates", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["ann"]).exit_code == 2


def test_options_stand_where_their_group_stands():
    assert list(inspect.signature(cook).parameters) == ["name", "hot", "dish", "plates"]
    assert (cook.__name__, cook.__doc__) == ("cook", "Cooks.")
