"""The tables of the documentation that are written from the code.

A page marks where a table stands (`<!-- settings: begin -->` … `<!-- settings: end -->`); `make docs` writes it there anew, and a
test holds every page to the code. What a table says of a word is the docstring below that word.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from audit.comparison import Finding
from clients.topics import TopicSpec, delivery_specs, link_specs, publish_specs, service_topics
from service.kafka import acls
from service.watch.metrics import ServiceCollector
from streaming.model.books import Books, WindowItem
from streaming.model.outputs import MessageReason, Outcome, Unsent
from streaming.notify.pace import PACES
from streaming.spark.pipelines import PIPELINES
from streaming.windows.deciders.decision import Choice, ChoiceReason
from streaming.world.expectation import Agreement
from streaming.world.silence import Silence
from tidings import config, names
from tidings.control import Link
from tidings.errors import Unreadable
from tidings.notification import Reason
from tidings.registers import Join
from tidings.subscription import PACE_PROPERTIES
from tidings.topic import Deciding, Filtering, Placement
from topology.overlay import ProblemKind

ROOT = Path(__file__).parent.parent
DECISIONS = ROOT / "docs" / "decisions"
_SECTION = re.compile(r"(<!-- ([a-z-]+): begin -->\n\n).*?(\n<!-- \2: end -->)", re.DOTALL)


def pages() -> list[Path]:
    """All pages that people read, but for what benchmarks and experiments write themselves."""
    written = {"benchmarks.md", "results.md"}
    found = (ROOT / "docs").rglob("*.md")
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(path for path in found if path.name not in written)]


def rendered(text: str) -> str:
    """A page with its tables written anew."""
    return _SECTION.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def sections(text: str) -> list[str]:
    """The tables that a page has."""
    return [found[2] for found in _SECTION.finditer(text)]


# ---- docstrings -------------------------------------------------------------------------------------------------------


def said_below(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str | None]]:
    """The names that are given a value, each with the docstring that stands below it."""
    statements = list(body)
    for statement, below in zip(statements, [*statements[1:], None], strict=True):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        if isinstance(target, ast.Name):
            yield target.id, _text(below)


def _text(statement: ast.stmt | None) -> str | None:
    match statement:
        case ast.Expr(ast.Constant(str(text))):
            return " ".join(text.split())
    return None


def meanings(enum: type[Enum]) -> dict[str, str]:
    """What each word of an enum means. Raises ValueError for one that does not say."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(enum))).body
    assert isinstance(tree, ast.ClassDef)
    said = dict(said_below(tree.body))
    silent = [member.name for member in enum if not said.get(member.name)]
    if silent:
        raise ValueError(f"{enum.__name__} must say below {', '.join(silent)} what it means: the documentation lists it")
    return {str(member.value): said[member.name] or "" for member in enum}


def first_paragraph(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())


# ---- tables -----------------------------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *([_in_cell(cell) for cell in row] for row in rows)]
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(lines[0]), *texts[1:]]) + "\n"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _words(enum: type[Enum], head: str) -> Callable[[], str]:
    return lambda: table((head, "means"), ((f"`{word}`", means) for word, means in meanings(enum).items()))


def _message_reasons() -> str:
    """By outcome, which is the first word of what a reason means."""
    order = [str(outcome) for outcome in Outcome]
    rows = []
    for word, means in meanings(MessageReason).items():
        outcome, _, rest = means.partition(": ")
        rows.append((order.index(outcome.lower()), outcome.lower(), word, rest[0].upper() + rest[1:]))
    return table(("outcome", "reason", "means"), ((f"`{o}`", f"`{word}`", means) for _, o, word, means in sorted(rows)))


def _paces() -> str:
    """The properties by which a subscription asks for a pace; those that make news wait come first."""
    declared = sorted(PACE_PROPERTIES.items(), key=lambda item: not item[1].of_events)
    bounds = ((name, f"1 to {asked.counted.most}: " if asked.counted else "", asked.means) for name, asked in declared)
    return table(("property", "means"), ((f"`{name}`", f"{bound}{means}") for name, bound, means in bounds))


def _waiting() -> str:
    """The paces that news can wait for."""
    rows = ((f"`{pace.word}`", f"{pace.why[0].upper()}{pace.why[1:]}.") for pace in PACES if pace.why)
    return table(("waits for", "means"), ((word, means.format(asked="as long or often as asked")) for word, means in rows))


def _silences() -> str:
    """Why something is not told: the general reasons, and those of paces."""
    words = meanings(Silence)
    for word, means in filter(None, (pace.silence for pace in PACES)):
        words[word] = f"{means[0].upper()}{means[1:]}.".replace("'", "`")
    return table(("why", "means"), ((f"`{word}`", means) for word, means in words.items()))


def _kafka_topics() -> str:
    partitions = 7  # told apart from what is fixed at one
    said = dict(said_below(ast.parse(inspect.getsource(names)).body))
    carried = {getattr(names, name): text for name, text in said.items() if text and isinstance(getattr(names, name), str)}
    broker, sender, to, subscriber = "<broker>", "<from>", "<to>", "notify.<subscriber>"
    carried[names.publish_topic(broker)] = first_paragraph(names.publish_topic.__doc__)
    carried[names.link_topic(sender, to)] = first_paragraph(names.link_topic.__doc__)
    carried[subscriber] = first_paragraph(delivery_specs.__doc__)
    specs: list[TopicSpec] = [
        *publish_specs([broker], partitions, 1),
        *[spec for spec in link_specs([Link("", sender, to)], 1) if spec.name == names.link_topic(sender, to)],
        *delivery_specs([subscriber], 1),
        *service_topics(partitions, 1),
    ]
    rows = []
    for spec in specs:
        passing = "an hour" if "retention.ms" in spec.config else "as the cluster keeps"
        kept = "compacted" if spec.config.get("cleanup.policy") == "compact" else passing
        count = "`kafka.partitions`" if spec.partitions == partitions else str(spec.partitions)
        rows.append((f"`{spec.name}`", carried[spec.name], count, kept))
    return table(("Kafka topic", "carries", "partitions", "kept"), rows)


def _metrics() -> str:
    batch = dict.fromkeys(("id", "rows", "seconds", "watermark_timestamp_seconds"), 0.0)
    progress = {pipeline.metric: batch for pipeline in PIPELINES}
    collector = ServiceCollector(lambda: {"b1": Books()}, lambda: progress, lambda: (0, 0, 0))
    rows = []
    for family in collector.collect():
        labels = getattr(family, "_labelnames", ())
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((f"`{name}`", ", ".join(f"`{label}`" for label in labels), family.documentation))
    return table(("metric", "labels", "says"), rows)


@dataclass(frozen=True)
class ErrorClass:
    """An error that derives from ``TidingsError``, as its module declares it."""

    name: str
    base: str
    module: str
    means: str
    exit_code: int


def rooms() -> list[str]:
    """The packages of the product and of its test kits."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = settings["tool"]["importlinter"]["root_packages"]
    return found


@cache
def modules() -> tuple[tuple[Path, ast.Module], ...]:
    """Every module of every room; read once, for several tables and tests go through all of them."""
    paths = [path for room in rooms() for path in sorted((ROOT / room).rglob("*.py"))]
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def error_classes() -> list[ErrorClass]:
    """All errors that the command line shows in one line, each after the one that it is a kind of."""
    found: dict[str, ErrorClass] = {}
    classes = [(path, node) for path, tree in modules() for node in tree.body if isinstance(node, ast.ClassDef)]
    grown = True
    while grown:
        grown = False
        for path, node in classes:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            base = next((each for each in bases if each == "TidingsError" or each in found), None)
            if base is not None and node.name not in found:
                found[node.name] = ErrorClass(node.name, base, *_place_and_meaning(path, node))
                grown = True
    return [each for base in ("TidingsError", *found) for each in found.values() if each.base == base]


def _place_and_meaning(path: Path, node: ast.ClassDef) -> tuple[str, str, int]:
    where = path.relative_to(ROOT)
    module = importlib.import_module(".".join(where.with_suffix("").parts).removesuffix(".__init__"))
    return where.as_posix(), first_paragraph(ast.get_docstring(node)).replace("``", "`"), getattr(module, node.name).exit_code


def _errors() -> str:
    every = error_classes()

    def inside(base: str, depth: int) -> Iterator[tuple[str, ...]]:
        for each in sorted((each for each in every if each.base == base), key=lambda each: each.name):
            yield "– " * depth + f"`{each.name}`", each.means, str(each.exit_code), f"`{each.module}`"
            yield from inside(each.name, depth + 1)

    return table(("error", "means", "exit code", "where"), inside("TidingsError", 0))


def _decisions() -> str:
    rows = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        short = re.search(r"^In short: (.+?)\n\n", text, re.DOTALL | re.MULTILINE)
        if short is None:
            raise ValueError(f"{path.name} must have a paragraph that begins with 'In short: '")
        title = text.splitlines()[0].removeprefix("# ")
        rows.append((f"[{path.name[:4]}]({path.name})", title, " ".join(short[1].split()).removesuffix(".")))
    return table(("", "decision", "in short"), rows)


GLOSSARY = ("tidings", "topology", "streaming")
"""The rooms whose words `docs/words.md` has: all others use them."""


def public_classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def glossary() -> dict[str, tuple[str, str]]:
    """Every module and every public class of those rooms: what it says of itself, and where it stands."""
    found: dict[str, tuple[str, str]] = {}
    for path, tree in modules():
        where = path.relative_to(ROOT)
        if where.parts[0] not in GLOSSARY or path.stem == "__main__":
            continue
        said = [(node.name, ast.get_docstring(node)) for node in public_classes(tree)]
        if path.stem != "__init__":
            said.append((".".join(where.with_suffix("").parts), ast.get_docstring(tree)))
        for name, text in said:
            if not text:
                raise ValueError(f"{name} in {where} must begin with a docstring: the words list it")
            found[name] = _first_sentence(text), where.as_posix()
    return found


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z`])|; ", first_paragraph(text).replace("``", "`"))[0].removesuffix(".") + "."


def _class_words() -> str:
    rows = sorted((name.lower(), name, *said) for name, said in glossary().items() if "." not in name)
    return table(("class", "is", "in"), ((f"`{name}`", means, f"`{where}`") for _, name, means, where in rows))


def _module_words() -> str:
    rows = ((name, means) for name, (means, _) in glossary().items() if "." in name)
    return table(("module", "is about"), ((f"`{name}`", means) for name, means in rows))


TABLES: dict[str, Callable[[], str]] = {
    "settings": config.render_table,
    "rights": acls.render_table,
    "notification-reasons": _words(Reason, "`reason`"),
    "outcomes": _words(Outcome, "outcome"),
    "message-reasons": _message_reasons,
    "dead-letters": _words(Unreadable, "reason"),
    "unsent": _words(Unsent, "reason"),
    "waiting": _waiting,
    "paces": _paces,
    "window-items": _words(WindowItem, "count"),
    "choices": _words(Choice, "choice"),
    "choice-reasons": _words(ChoiceReason, "reason"),
    "silences": _silences,
    "findings": _words(Finding, "finding"),
    "agreements": _words(Agreement, "verdict"),
    "overlay-problems": _words(ProblemKind, "problem"),
    "joins": _words(Join, "join"),
    "placements": _words(Placement, "`gatherer`"),
    "filterings": _words(Filtering, "`filter`"),
    "deciders": _words(Deciding, "`decider`"),
    "kafka-topics": _kafka_topics,
    "metrics": _metrics,
    "errors": _errors,
    "decisions": _decisions,
    "class-words": _class_words,
    "module-words": _module_words,
}


def main() -> None:
    """Write all tables anew."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (anew := rendered(text)) != text:
            page.write_text(anew, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} written anew")


if __name__ == "__main__":
    main()
