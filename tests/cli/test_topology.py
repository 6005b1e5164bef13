"""`tidings topology`: what it draws, says as JSON, and makes up. Nothing here needs a service."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx
import pytest

from streaming.world.records import advertisement, broker, link, snapshot, subscription, topic
from testing.commands import Said, Tidings
from tidings.control.files import read_text
from topology.generators import KINDS, generate
from topology.overlay import check, of_snapshot, to_records

Record = dict[str, Any]
CHAIN = [broker(f"b{n}") for n in range(1, 6)] + [link(f"b{n}", f"b{n + 1}") for n in range(1, 5)]
RING = [*CHAIN, link("b1", "b5", cost=9)]
LONG_WHERE = " or ".join(f"place = 'a street with a rather long name, number {n}' and floor > {n}" for n in range(9))


@pytest.fixture
def shown(tidings: Tidings, tmp_path: Path) -> Callable[..., Said]:
    """What `topology show` says of control records."""

    def command(records: list[Record], *options: str) -> Said:
        (tmp_path / "control.jsonl").write_text("\n".join(map(json.dumps, records)))
        return tidings("topology", "show", "--file", "control.jsonl", *options)

    return command


Shown = Callable[..., Said]


# ---- as JSON ----------------------------------------------------------------------------------------------------------


def test_the_overlay_as_json(shown: Shown) -> None:
    records = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2", cost=2.5, forbid=["weather"]), link("b2", "b9")]
    said = shown([*records, subscription("s", broker="b2")], "--json").json
    assert said["brokers"] == ["b1", "b2", "b3"]
    assert said["links"] == [{"name": "b1-b2", "a": "b1", "b": "b2", "cost": 2.5, "forbid": ["weather"]}]
    assert said["parts"] == [["b1", "b2"], ["b3"]]
    assert [problem["kind"] for problem in said["problems"]] == ["unknown-broker", "cut"]
    assert "'b9'" in said["problems"][0]["text"]
    assert "topic" not in said
    assert said["topics"] == {
        "incident": {
            "gatherer": "b1",
            "gatherers": {"b1": "b1", "b3": None},
            "filter": "profile",
            "placement": "centre",
            "rendezvous": None,
            "subscriptions": 1,
            "brokers": 2,
            "links": 1,
            "longest_way": 1,
        }
    }


def test_a_tree_as_json_says_what_is_wanted_on_each_side_of_a_link(shown: Shown) -> None:
    told = [subscription("near", broker="b1", where="severity>=3"), subscription("far", broker="b5")]
    said = shown([*RING, *told, advertisement("p", "b3")], "--topic", "incident", "--json").json
    assert (said["topic"], said["gatherer"], said["gatherers"]) == ("incident", "b3", {"b1": "b3"})
    assert (said["filter"], said["placement"], said["rendezvous"]) == ("profile", "centre", None)
    severe, everything = "severity >= 3", "everything"
    assert [(each["name"], each["a"], each["b"], each["beyond"]) for each in said["tree"]] == [
        (f"b{n}-b{n + 1}", f"b{n}", f"b{n + 1}", {"a": severe, "b": everything}) for n in range(1, 5)
    ]


def test_the_sides_of_a_link_are_those_of_its_own_ends(shown: Shown) -> None:
    records = [broker("b1"), broker("b2"), link("b2", "b1"), subscription("s", broker="b2", where="a = 1")]
    [only] = shown(records, "--topic", "incident", "--json").json["tree"]
    assert only == {"name": "b2-b1", "a": "b2", "b": "b1", "beyond": {"a": "a = 1", "b": "nobody"}}


def test_a_topic_that_is_cut_has_a_gatherer_in_each_part(shown: Shown) -> None:
    chain = [each if each["name"] != "b3-b4" else each | {"forbid": ["incident"]} for each in CHAIN]
    records = [*chain, broker("b6"), subscription("left", broker="b1"), subscription("right", broker="b5")]
    said = shown(records, "--topic", "incident", "--json").json
    assert said["parts"] == [["b1", "b2", "b3", "b4", "b5"], ["b6"]]
    assert said["gatherer"] == "b2"
    assert said["gatherers"] == {"b1": "b2", "b4": "b4", "b6": None}
    assert [each["name"] for each in said["tree"]] == ["b1-b2", "b2-b3", "b4-b5"]


def test_the_gatherer_is_that_of_the_largest_part_that_subscribes(shown: Shown) -> None:
    records = [*CHAIN, broker("c1"), broker("c2"), link("c1", "c2"), subscription("s", broker="c2")]
    said = shown(records, "--topic", "incident", "--json").json
    assert (said["gatherer"], said["gatherers"]) == ("c1", {"b1": None, "c1": "c1"})
    assert [each["name"] for each in said["tree"]] == ["c1-c2"]  # the others would have a tree, if anybody wanted it


def test_where_nobody_gathers_the_gatherer_is_null(shown: Shown) -> None:
    records = [*CHAIN, topic(gather=False, filter="rendezvous", rendezvous="b4"), subscription("s", broker="b1")]
    said = shown(records, "--topic", "incident", "--json").json
    assert (said["gatherer"], said["rendezvous"], said["placement"], said["filter"]) == (None, "b4", "none", "rendezvous")


@pytest.mark.parametrize("seed", range(8))
def test_every_tree_is_one_and_reaches_all_who_take_part(shown: Shown, seed: int) -> None:
    random = Random(seed)
    overlay = generate(random.choice([kind for kind in KINDS if kind != "chain"]), random.randint(2, 40), seed)
    at = random.choices(overlay.brokers, k=4)
    told = [subscription(f"s{number}", broker=name) for number, name in enumerate(at)]
    heard = random.choices(overlay.brokers, k=random.randint(0, 3))
    advertised = [advertisement(f"a{number}", name) for number, name in enumerate(heard)]
    said = shown([*to_records(overlay), *told, *advertised], "--topic", "incident", "--json").json
    taking_part = {*at, *(heard or overlay.brokers)}
    tree = nx.Graph([(each["a"], each["b"]) for each in said["tree"]])
    if len(taking_part) > 1:
        assert nx.is_tree(tree)
        assert taking_part <= set(tree)
        assert said["gatherer"] in nx.center(tree)
        assert said["topics"]["incident"]["longest_way"] == nx.diameter(tree)
    assert said["topics"]["incident"]["brokers"] == max(1, len(tree))
    assert said["topics"]["incident"]["links"] == len(said["tree"])
    drawn = shown([*to_records(overlay), *told, *advertised], "--topic", "incident").out
    in_tree, outside = drawn.partition("↓ what is wanted there")[::2]
    for name in overlay.brokers:
        assert len(re.findall(rf"\b{name}\b(?!-)", in_tree)) == (name in tree or name == said["gatherer"])
    assert len(re.findall(r"\b(b\d+)-(b\d+)\b", outside)) == len(overlay.links) - len(said["tree"])


# ---- in the terminal --------------------------------------------------------------------------------------------------


def test_a_tree_hangs_from_its_gatherer(shown: Shown) -> None:
    records = [
        *RING,
        broker("b6"),
        link("b3", "b6"),
        subscription("a", broker="b1", where="severity >= 3"),
        advertisement("p", "b4"),
    ]
    lines = shown([*records, subscription("b", broker="b1"), subscription("c", broker="b2"), subscription("x", "other")]).lines
    assert "│ b1     │ b2, b5 (cost 9) │ incident 2, other 1 │" in lines
    [row] = [line for line in lines if line.startswith("│ incident")]
    assert re.findall(r"\w+", row) == ["incident", "b2", "4", "3", "3", "centre", "profile"]
    lines = shown([*records, subscription("c", broker="b2", where="a = 1")], "--topic", "incident").lines
    assert lines[:5] == [
        "incident  2 subscriptions, placement centre, filter profile",
        "★ b2  gathers  1 subscription",
        "├── b1  1 subscription                    ↓ severity >= 3",
        "└── b3                                    ↓ nobody",
        "    └── b4  advertises                    ↓ nobody",
    ]
    assert lines[5:] == [
        "↓ what is wanted there and beyond",
        "Not in the tree: b5, b6",
        "Links not used: b1-b5 (cost 9), b3-b6, b4-b5",
    ]


def test_where_nobody_gathers_both_directions_of_a_link_count(shown: Shown) -> None:
    records = [*CHAIN[:3], link("b1", "b2"), link("b2", "b3"), topic(gatherer="none")]
    told = [subscription("s", broker="b1", where="a = 1"), subscription("t", broker="b3")]
    lines = shown([*records, *told], "--topic", "incident").lines
    assert lines[0].endswith("placement none, filter profile")
    assert lines[1] == "b2"
    assert lines[2].split("  ")[-2:] == ["↓ a = 1", "↑ everything"]
    assert "★" not in "".join(lines)


def test_a_rendezvous_is_named_in_the_title_and_marked(shown: Shown) -> None:
    records = [*CHAIN, topic(filter="rendezvous", rendezvous="b4"), subscription("s", broker="b1")]
    lines = shown(records, "--topic", "incident").lines
    assert lines[0].endswith("filter rendezvous, rendezvous b4")
    assert lines[1] == "★ b4  gathers, rendezvous"


def test_a_cut_is_named_and_each_part_has_its_tree(shown: Shown) -> None:
    chain = [each if each["name"] != "b3-b4" else each | {"forbid": ["incident"]} for each in CHAIN]
    records = [*chain, broker("b6"), subscription("left", broker="b1"), subscription("right", broker="b5")]
    text = "\n".join(shown(records, "--topic", "incident").lines)
    assert "Cut: part 1 of 3, 3 brokers\n★ b2  gathers\n" in text
    assert "Cut: part 2 of 3, 2 brokers\n★ b4  gathers\n" in text
    assert "Links not used: b3-b4 (not incident)\n" in text
    assert "Nobody subscribes, so messages stay where they are published: b6\n" in text
    assert "Problem: the overlay falls into 2 parts: " in text


def test_a_topic_that_links_forbid_on_the_way_to_somebody_is_a_problem(shown: Shown) -> None:
    chain = [each if each["name"] != "b3-b4" else each | {"forbid": ["incident"]} for each in CHAIN]
    records = [*chain, subscription("s", broker="b5")]
    text = (
        "the topic 'incident' is forbidden on links and falls into 2 parts: b1, b2, b3; b4, b5 "
        "(who subscribes at b5 is not told what is published in another part)"
    )
    for options in ((), ("--topic", "incident")):
        said = " ".join(shown(records, *options).out.split())  # a long line is broken at the width of the terminal
        assert f"Problem: {text}" in said
        assert shown(records, *options, "--json").json["problems"] == [{"kind": "forbidden", "text": text}]
    assert "Problem" not in shown([*CHAIN, subscription("s", broker="b5")]).out


@pytest.mark.parametrize("gather", [True, False])
def test_who_asks_for_aggregates_subscribes_too(shown: Shown, gather: bool) -> None:
    window = {"size_ms": 1000, "of": {"n": "count()"}}
    records = [broker("b1"), topic(gather=gather), subscription("s", window=window), subscription("t")]
    assert "│ b1     │            │ incident 2    │" in shown(records).lines
    for lone in (records[:3], [*records[:3], broker("b2"), link("b1", "b2", forbid=["incident"])]):
        assert "Nobody subscribes to anything." not in shown(lone).out
        said = shown(lone, "--topic", "incident", "--json").json
        assert (said["topics"]["incident"]["subscriptions"], said["topics"]["incident"]["brokers"]) == (1, 1)


def test_a_broker_that_takes_part_alone(shown: Shown) -> None:
    lines = shown([*CHAIN, subscription("s", broker="b2"), advertisement("p", "b2")], "--topic", "incident").lines
    assert lines[1:3] == ["★ b2  gathers  1 subscription, advertises", "Not in the tree: b1, b3, b4, b5"]


def test_a_topic_that_nobody_subscribes_to_is_no_error(shown: Shown) -> None:
    lines = shown([*CHAIN, subscription("s", topic="weather")], "--topic", "incident").lines
    assert lines == [
        "incident  0 subscriptions, placement centre, filter profile",
        "Nobody subscribes, so messages stay where they are published: b1, b2, b3, b4, b5",
    ]
    said = shown(CHAIN, "--topic", "incident", "--json").json
    assert (said["tree"], said["gatherer"], said["topics"]) == ([], None, {})
    assert "Nobody subscribes to anything." in shown(CHAIN).lines


def test_a_subscription_at_a_broker_that_is_not_there_is_a_problem(shown: Shown) -> None:
    records = [*CHAIN, subscription("s", broker="b9")]
    assert shown(records).lines[-1] == "Problem: the subscription 's' is at 'b9', a broker that is not there"
    assert shown(records, "--json").json["topics"] == {}


def test_what_is_wanted_is_cut_to_the_width_and_whole_as_json(shown: Shown) -> None:
    records = [*CHAIN, subscription("s", broker="b5", where=LONG_WHERE)]
    said = shown(records, "--topic", "incident").lines
    assert max(map(len, said)) == 120
    assert sum(line.endswith("…") for line in said) == 2
    assert "number 8" in shown(records, "--topic", "incident", "--json").json["tree"][3]["beyond"]["b"]


def test_a_long_way_without_forks_stays_on_one_level(shown: Shown) -> None:
    overlay = generate("chain", 60, 1, core=60)
    lines = shown([*to_records(overlay), subscription("s", broker="b01")], "--topic", "incident").lines
    assert [re.sub(r" *↓.*", "", line) for line in lines[1:5]] == ["★ b30  gathers", "├── b29", "│   ├── ↳ b28", "│   ├── ↳ b27"]
    assert max(map(len, lines)) <= 120
    assert all(sum(f"b{n:02}" in line for line in lines) == 1 for n in range(1, 61))


def test_a_tree_that_is_too_deep_for_the_width_is_whole_all_the_same(shown: Shown) -> None:
    overlay = generate("chain", 120, 1, core=60)
    lines = shown([*to_records(overlay), subscription("s", broker="b001")], "--topic", "incident").lines
    assert all(sum(f"b{n:03}  " in line for line in lines) == 1 for n in range(1, 121))


def test_names_of_strangers_are_not_markup(shown: Shown) -> None:
    name = "[red]\x1b[2J"
    records = [*CHAIN, subscription("s", name, broker="b1", where="a = '[bold]\x07'")]
    assert "[red]\\x1b[2J" in shown(records).out
    drawn = shown(records, "--topic", name).out
    assert "[red]\\x1b[2J" in drawn
    assert "↓ a = '[bold]\\x07'" in drawn


# ---- where the data comes from ----------------------------------------------------------------------------------------


def test_without_a_file_the_service_is_asked(tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tidings("topology", "show", "--dir", "nowhere")
    assert (said.code, said.complaint[:37]) == (1, "no service is ready in nowhere; start")
    asked = []
    monkeypatch.setattr("cli.connecting.connect", lambda *where: asked.append(where) or "a connection")
    monkeypatch.setattr("clients.control.read_control", lambda connection, _: snapshot(*CHAIN) if connection else None)
    assert tidings("topology", "show", "--json", "--bootstrap-servers", "k:1").json["parts"] == [["b1", "b2", "b3", "b4", "b5"]]
    assert asked == [("k:1", Path(".tidings"), None)]


def test_records_come_from_a_pipe_too_and_later_ones_count(tidings: Tidings) -> None:
    records = [*CHAIN, {"kind": "link", "name": "b4-b5", "delete": True}]
    said = tidings("topology", "show", "--file", "-", "--json", stdin="\n".join(map(json.dumps, records)))
    assert said.json["parts"] == [["b1", "b2", "b3", "b4"], ["b5"]]


def test_without_records_there_is_one_broker(shown: Shown) -> None:
    assert shown([], "--json").json["brokers"] == ["b1"]


@pytest.mark.parametrize(
    ("text", "code", "complaint"),
    [
        (None, 1, "control.jsonl cannot be read: No such file or directory"),
        ('{"kind": "broker", "name": "b.1"}', 2, "(control.jsonl:1)"),
        ('{"kind": "broker"\n', 2, "control.jsonl:2"),
    ],
)
def test_a_wrong_file_is_one_line(tidings: Tidings, tmp_path: Path, text: str | None, code: int, complaint: str) -> None:
    if text is not None:
        (tmp_path / "control.jsonl").write_text(text)
    said = tidings("topology", "show", "--file", "control.jsonl")
    assert said.code == code
    assert complaint in said.complaint


def test_the_program_starts_without_what_only_a_picture_needs() -> None:
    code = "import sys, cli.main\nprint([name for name in ('networkx', 'matplotlib', 'topology') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---- a picture --------------------------------------------------------------------------------------------------------

SHOWN = [*RING, broker("b6"), subscription("s", broker="b1"), advertisement("p", "b4")]


def test_a_picture_shows_overlay_tree_and_roles_and_is_always_the_same(shown: Shown, tmp_path: Path) -> None:
    said = shown(SHOWN, "--topic", "incident", "--svg", "one.svg")
    assert (said.code, said.err) == (0, "written: one.svg\n")
    assert "★" in said.out
    assert shown(SHOWN, "--topic", "incident", "--svg", "two.svg", "--json").json["gatherer"] == "b2"
    one, two = (tmp_path / "one.svg").read_text(), (tmp_path / "two.svg").read_text()
    assert one == two
    assert "<dc:date>" not in one
    written = re.findall(r"<!-- (.*) -->", one)
    assert {"incident", "b1", "b2", "b3", "b4", "b5", "b6"} <= set(written)
    legend = ["link", "link of the routing tree", "gathers", "advertises", "has subscriptions", "broker"]
    assert [each for each in written if each in legend] == legend
    assert one.count("stroke-width: 3.5") - 1 == 3  # the links of the tree; and one in the legend


def test_a_picture_of_the_overlay_alone_has_no_tree(shown: Shown, tmp_path: Path) -> None:
    shown([*SHOWN, topic(gatherer="none")], "--svg", "all.svg")
    assert "gathers" not in (tmp_path / "all.svg").read_text()
    assert "routing tree" not in (tmp_path / "all.svg").read_text()


def test_a_picture_tells_links_that_may_not_carry_the_topic_apart(shown: Shown, tmp_path: Path) -> None:
    records = [broker("b1"), broker("b2"), link("b1", "b2", forbid=["incident"]), subscription("s", broker="b1")]
    shown(records, "--topic", "incident", "--svg", "cut.svg")
    assert "link that may not carry it" in (tmp_path / "cut.svg").read_text()


@pytest.mark.parametrize("name", ["costs $\\frac$", "事件 \U0001f525", "a\x00b", "<x>&--"])
def test_a_picture_survives_any_name(shown: Shown, tmp_path: Path, name: str) -> None:
    from xml.etree import ElementTree

    said = shown([*CHAIN, subscription("s", name, broker="b1")], "--topic", name, "--svg", "odd.svg")
    assert said.code == 0
    ElementTree.parse(tmp_path / "odd.svg")


def test_a_picture_of_one_broker(shown: Shown, tmp_path: Path) -> None:
    assert shown([], "--svg", "one.svg").code == 0
    assert "<!-- b1 -->" in (tmp_path / "one.svg").read_text()


def test_without_matplotlib_the_extra_is_named(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = shown(CHAIN, "--svg", "x.svg")
    assert (said.code, "tidings[experiments]" in said.complaint) == (1, True)


def test_a_picture_that_cannot_be_written_or_drawn_is_one_line(shown: Shown) -> None:
    said = shown(CHAIN, "--svg", "nowhere/x.svg")
    assert (said.code, said.complaint) == (1, "nowhere/x.svg cannot be written: No such file or directory")
    said = shown([broker(f"b{n}") for n in range(500)], "--svg", "x.svg")
    assert (said.code, said.complaint) == (1, "a picture shows up to 499 brokers, and there are 500")


# ---- generate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_generated_records_can_be_applied(tidings: Tidings, kind: str) -> None:
    said = tidings("topology", "generate", kind)
    assert (said.code, said.err) == (0, "")
    records = [record for _, record in read_text(said.out, "stdin") if record is not None]
    overlay, problems = of_snapshot(snapshot(*records))
    assert problems == ()
    check(overlay)
    assert len(overlay.brokers) == (16 if kind == "chain" else 7)


def test_the_same_seed_is_the_same_overlay(tidings: Tidings) -> None:
    one, again, other = (tidings("topology", "generate", "random", "--brokers", "9", "--seed", seed).out for seed in "334")
    assert one == again != other
    assert one.count('"broker"') == 9


def test_a_real_network_by_its_name(tidings: Tidings) -> None:
    records = read_text(tidings("topology", "generate", "named", "--network", "topozoo/Abilene").out, "stdin")
    assert ("broker/New-York", {"kind": "broker", "name": "New-York"}) in records


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "there is no kind of overlay 'nonsense'; there are: random, waxman, "),
        (["named"], "'named' and --network need each other"),
        (["tree", "--network", "topozoo/Abilene"], "'named' and --network need each other"),
        (["named", "--network", "Abilene"], "(did you mean "),
        (["named", "--network", "topozoo/Abilene", "--brokers", "4"], "leave --brokers out"),
        (["tree", "--brokers", "0"], "brokers = 0 is not allowed"),
        (["chain", "--brokers", "7"], "brokers must be core * (edges + 1)"),
    ],
)
def test_what_cannot_be_generated_is_one_line(tidings: Tidings, arguments: list[str], complaint: str) -> None:
    said = tidings("topology", "generate", *arguments)
    assert said.code == 2
    assert complaint in said.complaint


@pytest.mark.parametrize("command", ["topology", "topology show", "topology generate"])
def test_help_has_an_example(tidings: Tidings, command: str) -> None:
    said = tidings(*command.split(), "--help")
    assert (said.code, "Example" in said.out) == (0, True)
