"""Puts the results on the page: the table, and a picture of rate beside delay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks" / "peers.svg"
_START, _END = "<!-- peers -->\n", "<!-- /peers -->\n"
_OURS, _THEIRS = "#D55E00", "#0072B2"
_SHORT = {
    "spark-dedup": "Spark, dropping exact repeats",
    "spark-per-key": "Spark, a group for each key",
    "flink": "Flink, heap",
    "flink-rocksdb": "Flink, RocksDB",
    "quix": "Quix Streams",
    "kafka-streams": "Kafka Streams",
}


def write(results: Mapping[str, Any], table: str) -> None:
    """Replace what stands between the marks, and draw the picture anew."""
    about = (
        "The same job, merge by key and field, drop what is known, emit news, on the same input and machine, each peer alone.\n"
        "How each is set up: [benchmarks/peers](../benchmarks/peers/README.md). The others do that job and no more: no\n"
        "subscriptions with predicates, no pace, no late subscribers, no books, no overlay. Made by\n"
        f'`make peers ARGS="--messages {results["messages"]}"`.'
    )
    picture = f"![Messages a second over the delay of half of the news, for each peer](benchmarks/{PICTURE.name})"
    text = PAGE.read_text(encoding="utf-8")
    made = f"{about}\n\n{picture}\n\n{table}\n"
    PAGE.write_text(text[: text.index(_START) + len(_START)] + made + text[text.index(_END) :], encoding="utf-8")
    draw(results["peers"])


def draw(peers: Mapping[str, Mapping[str, Any]]) -> None:
    """Up is faster, left is sooner. Full marks show half of the news, a line leads to where 99 of 100 were told."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    look = {"svg.hashsalt": "tidings", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(look):
        figure, axes = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
        for name, row in peers.items():
            if "error" in row:
                continue
            ours, delay = name == "tidings", row["latency"]
            colour, rate = _OURS if ours else _THEIRS, row["messages_per_s"]
            axes.plot([delay["p50_s"], delay["p99_s"]], [rate, rate], color=colour, linewidth=1.2, alpha=0.5)
            axes.plot(delay["p50_s"], rate, "D" if ours else "o", color=colour, markersize=9 if ours else 6)
            axes.annotate(
                _SHORT.get(name, name.capitalize()),
                (delay["p99_s"], rate),
                (7, -4),
                textcoords="offset points",
                color=colour,
                weight="bold" if ours else "normal",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(0.005, 300)  # room for the words to the right of the slowest
        axes.grid(visible=True, which="major", color="#E3E3E3", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("seconds from publishing to being told: half of the news (mark) to 99 of 100 (end of the line)")
        axes.set_ylabel("messages/s")
        PICTURE.parent.mkdir(exist_ok=True)
        figure.savefig(PICTURE, metadata={"Date": None})
        plt.close(figure)
