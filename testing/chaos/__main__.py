"""`python -m testing.chaos`: every scenario in turn, on a real Kafka and a real Spark. `make chaos` runs it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from testing.chaos import bomb, scenarios
from testing.chaos.scenarios import Scale

SCENARIOS: Mapping[str, Callable[[Path, Scale, Callable[[str], None]], Iterator[str]]] = MappingProxyType(
    {
        "kills": scenarios.killed,
        "workers": scenarios.workers_killed,
        "kafka": scenarios.kafka_away,
        "disk": scenarios.disk_full,
        "damage": scenarios.damaged,
        "clocks": scenarios.bad_clocks,
        "bomb": bomb.key_bomb,
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios that are asked for; 1 if a promise did not hold."""
    asked = _parse(arguments)
    scale = Scale(seed=asked.seed, kills=asked.kills, keys=asked.keys)
    print(f"seed {scale.seed}", flush=True)
    parent = Path(asked.dir or tempfile.mkdtemp(prefix="tidings-chaos-"))
    failed = [name for name in asked.only.split(",") if not _run(name, parent, scale)]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all held", flush=True)
    return 1 if failed else 0


def _run(name: str, parent: Path, scale: Scale) -> bool:
    """Run one scenario; its directory is kept when it failed."""
    folder = parent / name
    started_s = time.monotonic()

    def say(line: str) -> None:
        print(f"  {time.monotonic() - started_s:7.1f} s  {line}", flush=True)

    print(f"{name}: {SCENARIOS[name].__doc__}", flush=True)
    try:
        for line in SCENARIOS[name](folder, scale, say):
            say(line)
    except Exception as error:
        say(f"WRONG: {type(error).__name__}: {error}")
        say(f"seed {scale.seed}; everything is kept in {folder}")
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    defaults = Scale()
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=defaults.seed, help="what is drawn by chance is drawn from this")
    parser.add_argument("--kills", type=int, default=defaults.kills, help="how often the service is killed in one stream")
    parser.add_argument("--keys", type=int, default=defaults.keys, help="how many new keys the key bomb has")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, with commas")
    parser.add_argument("--dir", help="where the services run")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.only.split(",")) - SCENARIOS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
