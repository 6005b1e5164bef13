"""`tidings check`: what is wrong with control records, and who would be told what, before anybody is."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.check_output import Found, print_found
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from streaming.world.checking import Checked, Complaint
    from streaming.world.dry_run import DryRun, Fate, Told
    from streaming.world.expectation import Pairing, ToldComparison
    from streaming.world.script import BadLine
    from streaming.world.silence import Untold
    from tidings.config import Config

_DIFFERS, _WRONG = 1, 2


class CannotCheck(TidingsError):
    """A file cannot be used, so nothing can be said; 1 is kept for an expectation that differs."""

    exit_code = _WRONG


def check(
    config: Annotated[
        list[Path], typer.Argument(metavar="CONFIG...", help="Control records, as `control apply` takes them; - is the pipe.")
    ],
    messages: Annotated[
        Path | None, typer.Option(metavar="FILE|-", help="Messages to dry-run, one JSON object a line.", show_default=False)
    ] = None,
    expect: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What should be told, one pattern a line.", show_default=False)
    ] = None,
    write_expect: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what is told as an expectation.", show_default=False)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Take remarks for problems.")] = False,
    hop_ms: Annotated[int, typer.Option(min=0, help="How long a record takes over a link.")] = 0,
    settings: Annotated[
        Path | None, typer.Option(help="The settings of `tidings up`, if it is given any.", show_default=False)
    ] = None,
    as_json: connecting.AsJson = False,
) -> None:
    """Check control records, and dry-run messages against them: who would be told what, when and why.

    Needs no service. Exits 2 if a file is wrong, 1 if what is told is not what --expect says, 0 otherwise.

    Example: tidings check control.jsonl --messages witnesses.jsonl

    Example: tidings check control.jsonl --messages witnesses.jsonl --expect expected.jsonl
    """
    from streaming.world.expectation import compare, read_expected, write_expected
    from tidings.config import load

    if messages is None and (expect or write_expect):
        raise CannotCheck("an expectation needs --messages, to see what they bring about")
    if sum(str(path) == "-" for path in [*config, messages, expect]) > 1:
        raise CannotCheck("only one file can come from the pipe")
    loaded = load(settings, os.environ)
    checked = _checked(config, loaded, strict=strict)
    run, wrong = (None, []) if messages is None else _dry_run(messages, checked, loaded, hop_ms)
    patterns, unclear = ([], []) if expect is None else read_expected(_bytes(expect))
    found = Found(checked, [*checked.problems, *_at(messages, wrong), *_at(expect, unclear)])
    if not found.problems and run is not None:
        found.run = run
        found.comparisons = None if expect is None else compare(patterns, run.told)
        if write_expect is not None:
            _write(write_expect, write_expected(run.told, run.snapshot.subscriptions))
    if as_json:
        show.as_json(_datum(found))
    else:
        print_found(config, found)
    if found.problems:
        raise typer.Exit(_WRONG)
    if not found.holds:
        raise typer.Exit(_DIFFERS)


# ---- the files --------------------------------------------------------------------------------------------------------


def _checked(files: list[Path], loaded: Config, *, strict: bool) -> Checked:
    from streaming.broker.settings import timing_of
    from streaming.world.checking import Checked, check_text, check_whole
    from tidings.control import Snapshot

    checked = Checked(Snapshot(timing=timing_of(loaded)))
    for file in files:
        try:
            text = _bytes(file).decode()
        except UnicodeDecodeError as error:
            raise CannotCheck(f"{file} must be UTF-8; byte {error.start} is not") from None
        checked = check_text(text, "stdin" if str(file) == "-" else str(file), checked)
    checked = check_whole(checked)
    return replace(checked, problems=(*checked.problems, *checked.remarks), remarks=()) if strict else checked


def _dry_run(file: Path, checked: Checked, loaded: Config, hop_ms: int) -> tuple[DryRun | None, list[BadLine]]:
    from streaming.broker.settings import message_limits_of, rules_of
    from streaming.world.dry_run import dry_run
    from streaming.world.script import read_happenings

    happenings, wrong = read_happenings(_bytes(file), checked.snapshot.timing)
    if wrong or checked.problems:
        return None, wrong
    rules, limits = rules_of(loaded), message_limits_of(loaded)
    return dry_run(checked.snapshot, happenings, rules=rules, limits=limits, hop_ms=hop_ms), []


def _bytes(file: Path) -> bytes:
    if str(file) == "-":
        show.from_keyboard("lines")
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotCheck(f"{file} cannot be read: {error.strerror or error}") from error


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotCheck(f"{file} cannot be written: {error.strerror or error}") from error


def _at(file: Path | None, wrong: list[BadLine]) -> list[Complaint]:
    from streaming.world.checking import Complaint

    return [Complaint(f"{'stdin' if str(file) == '-' else file}:{each.line}", "", each.detail) for each in wrong]


# ---- for machines -----------------------------------------------------------------------------------------------------


def _datum(found: Found) -> dict[str, Any]:
    from clients.books import to_dict

    run, comparisons = found.run, found.comparisons
    datum: dict[str, Any] = {
        "records": found.checked.records,
        "problems": [_wrong_datum(each) for each in found.problems],
        "remarks": [_wrong_datum(each) for each in found.checked.remarks],
    }
    if run is not None:
        datum |= {
            "told": [_told_datum(each) for each in run.told],
            "messages": [_fate_datum(each) for each in run.fates],
            "not_told": [_untold_datum(each) for each in run.untold],
            "end_ms": run.end_ms,
            "books": to_dict(run.books),
        }
    if comparisons is not None:
        differing = [(each, step) for each in comparisons for step in each.steps if step.verdict != "same"]
        datum |= {"holds": found.holds, "differences": [_compared_datum(*each) for each in differing]}
    return datum


def _wrong_datum(wrong: Complaint) -> dict[str, Any]:
    return {"where": wrong.where, "about": wrong.about, "detail": wrong.detail}


def _told_datum(told: Told) -> dict[str, Any]:
    from streaming.world.expectation import parts_of

    return {"number": told.number, "kafka_topic": told.kafka_topic, **parts_of(told)}


def _fate_datum(fate: Fate) -> dict[str, Any]:
    from tidings.values import plain

    message = fate.message
    return {
        "line": fate.line,
        "at_ms": fate.at_ms,
        "broker": fate.broker,
        "topic": message.topic if message else None,
        "key": message.key if message else None,
        "fields": {name: plain(value) for name, value in message.fields.items()} if message else None,
        "source": message.source if message else None,
        "outcome": str(fate.outcome),
        "reason": fate.reason,
        "detail": fate.detail,
        "event": fate.event,
        "added": list(fate.added),
        "told_in": list(fate.told_in),
    }


def _untold_datum(untold: Untold) -> dict[str, Any]:
    return {
        "subscription": untold.subscription,
        "topic": untold.topic,
        "key": untold.key,
        "event": untold.event,
        "why": str(untold.why),
        "detail": untold.detail,
        "fields": list(untold.fields),
        "partly": untold.partly,
    }


def _compared_datum(comparison: ToldComparison, step: Pairing) -> dict[str, Any]:
    return {
        comparison.who: comparison.name,
        "verdict": str(step.verdict),
        "line": step.expected.line if step.expected else None,
        "expected": dict(step.expected.says) if step.expected else None,
        "told": _told_datum(step.told) if step.told else None,
        "differs": list(step.differs),
    }
