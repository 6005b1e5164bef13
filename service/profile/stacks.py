"""Stacks as the profilers write them, one line for each and how often it was seen, put together under one root for each program.

`main;run;work 12` is a line: frames from the outermost to the innermost, and a number of samples; of milliseconds once it is
joined, as a sample is not worth the same in all programs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_LINE = re.compile(r"(?P<frames>.+) (?P<count>\d+)")
_PROCESS = re.compile(r"process \d+:")
_THREAD = re.compile(r"\[(?P<name>.*) tid=\d+\]")
_OF_ONE_THREAD = re.compile(r"\[id = .*|\bfor (?:task|query) .*|[0-9a-f]{8}-[0-9a-f-]{27}|[-#@. ]*\d+")


@dataclass(frozen=True)
class SeenStacks:
    """What was seen of a program, as its profiler wrote it; and the processor time it used meanwhile, where that is known."""

    program: str
    text: str
    used_ms: float | None = None


def joined(programs: Iterable[SeenStacks], sample_ms: float) -> dict[str, int]:
    """The milliseconds of each stack, the name of its program outermost.

    A sample is worth ``sample_ms``, but all of a program no more than it used.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for seen in programs:
        stacks = list(_stacks(seen.text))
        samples = sum(count for _, count in stacks)
        each_ms = sample_ms if seen.used_ms is None else min(sample_ms, seen.used_ms / max(1, samples))
        for frames, count in stacks:
            found[";".join([seen.program, *frames])] += count * each_ms
    return {stack: max(1, round(ms)) for stack, ms in found.items()}


def collapsed(stacks: Mapping[str, int]) -> str:
    """As the profilers write it."""
    return "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))


def _stacks(text: str) -> Iterator[tuple[list[str], int]]:
    for line in text.splitlines():
        # A command line may have several lines, and stands in a frame: its beginning is no stack.
        if found := _LINE.fullmatch(line):
            frames = [frame for frame in found["frames"].split(";") if not _PROCESS.match(frame)]
            yield [_kind_of_thread(frame) for frame in frames], int(found["count"])


def _kind_of_thread(frame: str) -> str:
    """Threads come and go, and each task has its own name: what tells them from their like is left out.

    >>> _kind_of_thread("[Executor task launch worker for task 1.0 in stage 7.0 (TID 15) tid=4711]")
    '[Executor task launch worker]'
    >>> _kind_of_thread("[C2 CompilerThread0 tid=12]"), _kind_of_thread("[stream execution thread for tidings [id = 1f] tid=9]")
    ('[C2 CompilerThread]', '[stream execution thread for tidings]')
    """
    if not (thread := _THREAD.fullmatch(frame)):
        return frame
    name = thread["name"]
    return f"[{name[:2]}{_OF_ONE_THREAD.sub('', name[2:]).rstrip(' -')}]"
