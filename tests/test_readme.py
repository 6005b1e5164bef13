"""The README's example, run as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from streaming.wire.message import MessageLimits, decode_message
from testing.service import RunningService, wait_for
from tidings import names
from tidings.control import DEFAULT_BROKER

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    found = re.search(rf"<!-- example: {re.escape(name)} -->\n```(?:json|python)\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no example {name}"
    return found[1]


def test_three_witnesses_and_one_who_comes_late(service_up: RunningService, tmp_path: Path) -> None:
    for name in ("control.jsonl", "witnesses.jsonl", "late.jsonl"):
        (tmp_path / name).write_text(example(name))

    def tidings(*words: str) -> str:
        command = [sys.executable, "-m", "tidings", *words, "--dir", str(service_up.directory)]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60).stdout

    def told(name: str, count: int) -> list[dict]:
        def look() -> list[dict] | None:
            found = service_up.told(f"notify.{name}")
            return found if len(found) >= count else None

        return wait_for(f"{count} notifications for {name}", look)

    expected = [json.loads(line) for line in example("expected").splitlines()]
    for_ops = [each for each in expected if each["subscription"] == "ops"]
    for_late = [each for each in expected if each["subscription"] == "late"]
    tidings("control", "apply", "control.jsonl")
    tidings("publish", "witnesses.jsonl")
    told("ops", len(for_ops))
    tidings("control", "apply", "late.jsonl")
    told("late", len(for_late))

    seen = [json.loads(line) for line in tidings("watch", "ops", "--json", "--count", "2", "--timeout", "30").splitlines()]
    assert [{name: each[name] for name in ("subscription", "reason", "news")} for each in seen] == for_ops
    seen = [json.loads(line) for line in tidings("watch", "late", "--json", "--count", "1", "--timeout", "30").splitlines()]
    assert [{name: each[name] for name in ("subscription", "reason", "news")} for each in seen] == for_late
    books = json.loads(tidings("books", "--json"))
    assert books["balanced"]
    story = tidings("explain", "incident", "5th and Main")
    for word in ("witness-a said", "witness-b said", "redundant, known", "→ ops was told", "→ late was told"):
        assert word in story
    # C's report caused nothing, and the late subscriber was told once.
    assert (len(service_up.told("notify.ops")), len(service_up.told("notify.late"))) == (2, 1)

    (tmp_path / "client.py").write_text(example("client.py"))
    client = subprocess.Popen(
        [sys.executable, "client.py", service_up.bootstrap], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert client.stdout is not None
        assert any(line == "Oak St {'what': 'flood'}\n" for line in client.stdout), "it is told what it published"
    finally:
        client.kill()
        client.communicate()


def test_what_kcat_sends_is_a_message() -> None:
    found = re.search(r"^echo '([^=']+)=(.*)' \|\n +kcat -P .* -t (\S+) -K =$", README, re.MULTILINE)
    assert found, "the README shows how to publish with kcat"
    message = decode_message(found[2].encode(), MessageLimits())
    assert found[1].encode() == names.record_key(message.topic, message.key)
    assert found[3] == names.publish_topic(DEFAULT_BROKER)
    assert "kcat -C -b $B -t notify.ops " in README
