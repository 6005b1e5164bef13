"""`tidings replay`: what it says and how it ends; and once, on a real service."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from audit import proof as proofs
from audit.comparison import CompareScope, Difference, Finding, TellTally
from audit.horizon import Reach
from audit.proof import Proof
from cli import connecting
from cli.main import run
from producers.publisher import Publisher
from streaming.world.records import subscription, topic
from testing.commands import Said, Tidings
from testing.service import RunningService, wait_for
from tidings.message import Message

SAME = Proof(
    CompareScope(),
    Reach(None),
    1200,
    TellTally(expected=3, same=3, repeated=1),
    TellTally(),
    TellTally(expected=1, same=1),
    "same",
    (),
)
CUT = Reach(1_731_722_400_000, ("publish.b1-0 has lost its beginning",))


@pytest.fixture
def replayed(tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Runs `tidings replay`; what the log proves is given."""

    def command(proof: Proof, *arguments: str) -> Said:
        monkeypatch.setattr(connecting, "connect", lambda *_: None)
        monkeypatch.setattr(proofs, "prove", lambda _, *, scope, **__: replace(proof, scope=scope))
        return tidings("replay", *arguments)

    return command


def test_the_same(replayed):
    said = replayed(SAME)
    assert said.code == 0
    for words in ("1,200 messages decided again", "books: same", "goes back to its beginning", "✓ the service did what follows"):
        assert words in said.out
    said = replayed(SAME, "--json").json
    assert (said["same"], said["notifications"]["repeated"], said["messages"], said["differences"]) == (True, 1, 1200, [])


def test_a_difference_is_said_in_words(replayed):
    evil = Difference("notification", Finding.MISSING, "ops, incident · \x1b[2J, first")
    said = replayed(replace(SAME, differences=(evil,) * 12))
    assert said.code == 1
    assert said.out.count("✗ notification, missing: ops, incident · \\x1b[2J, first") == 10
    assert "and 2 differences more" in said.out
    assert len(replayed(replace(SAME, differences=(evil,) * 12), "--json").json["differences"]) == 12


def test_a_log_that_forgot_something_says_so(replayed):
    said = replayed(replace(SAME, reach=CUT, notifications=TellTally(expected=2, same=2, undecided=5)))
    assert said.code == 0
    for words in (
        "the log is whole only from",
        "publish.b1-0 has lost its beginning",
        "silent for two windows",
        "5 results cannot be",
    ):
        assert words in said.out


def test_a_log_that_forgot_all_of_it_decides_nothing(replayed):
    nothing = replace(SAME, reach=CUT, notifications=TellTally(undecided=5), dead_letters=TellTally())
    said = replayed(nothing)
    assert said.code == 3
    assert "? the log does not say enough to decide anything" in said.out


def test_from_a_time(replayed):
    said = replayed(SAME, "--from", "2024-11-16T02:00:00+00:00", "--topic", "t", "--json").json
    assert said["from_ms"] == 1_731_722_400_000
    assert "was rebuilt from the beginning" in said["notes"][1]


def test_a_place_that_nobody_understands_exits_2(replayed):
    assert replayed(SAME, "--from", "soon").code == 2


def test_help_has_an_example(replayed):
    assert "Example: tidings replay" in replayed(SAME, "--help").out


@pytest.mark.timeout(200)
def test_a_real_service_did_what_follows_from_its_log(service_up: RunningService, capsys: pytest.CaptureFixture[str]) -> None:
    service_up.apply(topic("replayed", hold_ms=300), subscription("replayed", topic="replayed"))
    with Publisher(service_up.connection) as publisher:
        for number in range(20):
            publisher.publish(Message("replayed", f"k{number % 3}", {f"f{number % 7}": number % 2}))
        publisher.publish(Message("replayed", "k0", {"a": 1}, published_ms=1))
    wait_for("somebody to be told", lambda: len(service_up.told("notify.replayed")) >= 3)

    def replay(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["replay", "--json", "--dir", str(service_up.directory), *arguments])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    code, said = replay("--topic", "replayed", "--wait", "30")
    assert (code, said["differences"]) == (0, []), said
    assert (said["messages"], said["late"]["same"], said["notifications"]["missing"]) == (21, 1, 0)
    assert said["notifications"]["same"] >= 3
    (first, *_) = [record for record in service_up.read("publish.b1") if b'"k0"' in (record.value or b"")]
    code, said = replay("--from", f"publish.b1-{first.partition}:{first.offset}", "--topic", "replayed", "--key", "k0")
    assert (code, said["from_ms"]) == (0, first.append_ms), said
    assert said["notifications"]["same"] >= 1
