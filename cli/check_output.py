"""How `tidings check` looks to a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli import show

if TYPE_CHECKING:
    from rich.text import Text

    from streaming.world.checking import Checked, Complaint
    from streaming.world.dry_run import DryRun, Fate, Told
    from streaming.world.expectation import Expected, Pairing, ToldComparison
    from streaming.world.silence import Untold

_AROUND = 2
_CLOCK_FROM_MS = 10**11
"""Times before are taken for milliseconds since the start of a story, later ones for those of a clock."""

_WHY = {
    "joined": "its news left with another's",
    "conflict": "it disagrees about {added}; the value kept stands",
    "unwanted": "added {added}, and nobody is told",
    "known": "nothing new",
    "digested": "its news waits for a digest",
    "repeat": "this measurement was seen before",
    "to-gatherer": "passed on to the broker that gathers",
    "to-subscribers": "passed on to where it is wanted",
    "windowed": "it counts in windows",
}
_STYLES = {"told": "green", "merged": "cyan", "redundant": "dim", "late": "yellow", "dead_lettered": "red", "forwarded": "dim"}


@dataclass
class Found:
    """All that there is to say."""

    checked: Checked
    problems: list[Complaint]
    run: DryRun | None = None
    comparisons: list[ToldComparison] | None = None

    @property
    def holds(self) -> bool:
        return all(each.holds for each in self.comparisons or ())


def print_found(config: list[Path], found: Found) -> None:
    """Problems, what happens, who is not told, and how that compares with what was expected."""
    console = show.console()
    for each in found.problems:
        console.print(_wrong_line("✗", each, "red"))
    for each in found.checked.remarks:
        console.print(_wrong_line("!", each, "yellow"))
    if not found.problems:
        files = show.printable(", ".join("stdin" if str(file) == "-" else str(file) for file in config))
        console.print(_line("✓ ", "green", f"{files}: {show.count(found.checked.records, 'record')}, no problems"))
    if found.run is not None:
        _print_run(found.run)
    if found.comparisons is not None:
        _print_comparisons(found.comparisons)


def _line(sign: str, style: str, text: str = "") -> Text:
    from rich.text import Text

    return Text().append(sign, style=style).append(text)


def _wrong_line(sign: str, wrong: Complaint, style: str) -> Text:
    from rich.text import Text

    line = Text(f"{sign} ", style=style)
    if wrong.where:
        line.append(f"{show.printable(wrong.where)}  ", style="dim")
    if wrong.about:
        line.append(f"{show.printable(wrong.about)}: ", style="bold")
    line.append(show.printable(wrong.detail))
    for below in wrong.pointer.split("\n") if wrong.pointer else ():
        line.append(f"\n      {show.printable(below)}", style=style)
    return line


def _print_run(run: DryRun) -> None:
    from streaming.world.dry_run import Fate

    console = show.console()
    console.print(_line("What happens", "bold", f"  until {_time(run.end_ms)}, when nothing is open any more"))
    happened: list[Fate | Told] = [*run.fates, *run.told]
    for each in sorted(happened, key=lambda each: (each.at_ms, each.order)):
        console.print(_fate_line(each) if isinstance(each, Fate) else _told_line(each))
    if not run.told:
        console.print(_line("  nobody is told anything", "yellow"))
    if run.untold:
        console.print(_line("Not told", "bold"))
    for untold in run.untold:
        console.print(_untold_line(untold))
    for name in sorted(run.beats):
        console.print(_line(f"  {show.printable(name)}", "bold", " is also sent heartbeats; they are left out here"))


def _time(ms: int) -> str:
    return f"{ms / 1000:.3f} s" if ms < _CLOCK_FROM_MS else show.clock_time(ms)


def _fate_line(fate: Fate) -> Text:
    from rich.text import Text

    message = fate.message
    line = Text(f"  {_time(fate.at_ms):>10}  line {fate.line}  ", style="dim")
    if message is None:
        line.append("unreadable", style="bold")
    else:
        line.append(f"{show.printable(message.topic)} · {show.printable(message.key)}  ", style="dim")
        line.append(f"{show.printable(message.source or 'somebody')}", style="bold")
        line.append(f" says {show.facts(message.fields) or 'nothing'}")
    line.append(f"  [{show.printable(fate.broker)}]  ", style="dim")
    outcome = str(fate.outcome).replace("_", "-")
    added = show.printable(", ".join(fate.added))
    if fate.told_in:
        said = f"adds {added}, told in {', '.join(f'#{number}' for number in fate.told_in)}"
    else:
        said = f"{outcome}, {fate.reason}: {show.printable(fate.detail) or _WHY.get(fate.reason, '').format(added=added)}"
    return line.append(said, style=_STYLES.get(str(fate.outcome)))


def _told_line(told: Told, start: str = "  ") -> Text:
    from rich.text import Text

    notification = told.notification
    line = Text(f"{start}{_time(told.at_ms):>10}  ", style="dim")
    line.append(f"#{told.number} → {show.printable(notification.subscription)}", style="bold")
    line.append(f"  {notification.reason}  ", style="green")
    line.append(f"{show.printable(notification.topic)} · {show.printable(notification.key)}  ", style="dim")
    line.append(show.facts(notification.news))
    for each in notification.digest:
        line.append(f"  and of another event: {show.facts(each.news)}")
    return line


def _untold_line(untold: Untold) -> Text:
    from rich.text import Text

    line = Text(f"  {show.printable(untold.subscription)}", style="bold")
    if untold.key is not None:
        line.append(f"  {show.printable(untold.topic)} · {show.printable(untold.key)}", style="dim")
    line.append(f"  {untold.why}", style="yellow")
    line.append(f": {show.printable(untold.detail)}")
    if untold.partly:
        line.append(f"; so it is not told {show.printable(', '.join(untold.fields))} any more", style="dim")
    return line


# ---- the expectation --------------------------------------------------------------------------------------------------


def _print_comparisons(comparisons: list[ToldComparison]) -> None:
    from collections import Counter

    console = show.console()
    console.print(_line("Expectation", "bold"))
    verdicts: Counter[str] = Counter(str(step.verdict) for each in comparisons for step in each.steps)
    for each in comparisons:
        if each.holds:
            console.print(_line("  ✓ ", "green", f"{show.printable(each.name)}: told {_times(len(each.steps))}, as expected"))
            continue
        console.print(_line("  ✗ ", "red", f"{show.printable(each.name)}"))
        for line in _diff(each.steps):
            console.print(line)
    if all(each.holds for each in comparisons):
        console.print(_line("✓ ", "green", f"the expectation holds: {show.count(verdicts['same'], 'notification')}"))
    else:
        told = ", ".join(f"{verdicts[word]} {word}" for word in ("missing", "extra", "other") if verdicts[word])
        console.print(_line("✗ ", "red", f"the expectation differs: {told}; {verdicts['same']} as expected"))


def _times(count: int) -> str:
    return "nothing" if count == 0 else "once" if count == 1 else f"{count} times"


def _diff(steps: Sequence[Pairing]) -> Iterator[Text]:
    """The differences, with what is as expected around them."""
    near = {n + away for n, step in enumerate(steps) if step.verdict != "same" for away in range(-_AROUND, _AROUND + 1)}
    for n, step in enumerate(steps):
        if n in near:
            yield from _step_lines(step)
        elif n == 0 or n - 1 in near:
            yield _line("      …", "dim")


def _step_lines(step: Pairing) -> list[Text]:
    """Like a diff: what was expected with a minus, what was told with a plus."""
    from rich.text import Text

    lines = []
    if step.verdict == "same" and step.told:
        return [_told_line(step.told, "      ")]
    if step.expected:
        lines.append(Text(f"    - line {step.expected.line}: {_expected_words(step.expected)}", style="red"))
    if step.told:
        line = _told_line(step.told, "    + ")
        line.stylize("green")
        if step.differs:
            line.append(f"  differs in {', '.join(step.differs)}", style="yellow")
        lines.append(line)
    return lines


def _expected_words(expected: Expected) -> str:
    import json

    words = [
        f"{name} {json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value}"
        for name, value in expected.says.items()
        if name not in ("subscription", "subscriber")
    ]
    return show.printable(", ".join(words) or "anything") + (" must not be told" if expected.count == 0 else "")
