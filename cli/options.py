"""Options that belong together, declared once: a dataclass that any command can take as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes groups of options, as typer wants to see it: with every option by itself, in the groups' order.

    A field of a group is what a parameter would be: its annotation declares the option, its value is the default.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            options = _options(kind)
            groups[parameter.name] = kind, [option.name for option in options]
            parameters += options
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def unrolled(**given: Any) -> None:
        for name, (make, members) in groups.items():
            given[name] = make(**{member: given.pop(member) for member in members})
        command(**given)

    unrolled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return unrolled


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
