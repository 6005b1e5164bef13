"""Draws the plots of a result: one figure, the axes in a row, as SVG and PNG.

Ours is a full line with the spread as a band; the paper's is dashed with hollow markers; a baseline is grey. Colour never
stands alone: each label has a marker of its own too. The same data gives the same SVG, byte for byte, so that the page of
results changes only when a result does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import Any

from experiments.harness import Plot, Series
from tidings.errors import CannotRun

# Okabe and Ito's colours, which people tell apart however they see colour; without the yellow, which is faint on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREYS = ("#666666", "#999999")
_GREY_LINES = ((0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_AXES_INCHES = (4.7, 3.4)
_LEGEND_ROW_INCHES = 0.21
_SHORT_LABEL, _LABEL_LINE = 22, 50
_PNG_DPI = 150
_MOST_TICKS = 9

_LOOK = {
    "svg.hashsalt": "tidings",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 2.8,
}


def check() -> None:
    """Fail now if nothing can be drawn later: an experiment may run for minutes before its first plot."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CannotRun(
            "plots need matplotlib, which is not installed: pip install 'tidings[experiments]', or do without them: --no-plot"
        ) from error


def draw(plots: Sequence[Plot], folder: Path, name: str) -> list[Path]:
    """Write ``<name>.svg`` and ``<name>.png``; says which files those are. Without plots there are none."""
    check()
    if not plots:
        return []
    with _look():
        figure = _figure(plots)
        vector, pixels = folder / f"{name}.svg", folder / f"{name}.png"
        # Neither a date nor a version: the file is to change with the data only.
        figure.savefig(vector, metadata={"Date": None, "Creator": None})
        figure.savefig(pixels, dpi=_PNG_DPI, metadata={"Software": None})
    return [vector, pixels]


@contextmanager
def _look() -> Iterator[None]:
    """Our look, whatever the user's own matplotlib settings say; those are back afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


def _figure(plots: Sequence[Plot]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width, height = _AXES_INCHES
    legend = max(_legend_rows(plot) for plot in plots) * _LEGEND_ROW_INCHES
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, wspace=0.06)
    figure = Figure(figsize=(width * len(plots), height + legend), layout=layout)
    looks: dict[str, int] = {}
    for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
        _assign_looks(plot, looks)
        _draw_plot(axes, plot, looks)
    return figure


def _assign_looks(plot: Plot, looks: dict[str, int]) -> None:
    """A label keeps its colour and marker in all axes; a new one gets the first that these axes do not use yet."""
    labels = dict.fromkeys(each.label for each in plot.series if each.style != "baseline")
    taken = {looks[label] for label in labels if label in looks}
    free = (look for look in count() if look not in taken)
    for label in labels:
        if label not in looks:
            looks[label] = next(free)


def _draw_plot(axes: Any, plot: Plot, looks: dict[str, int]) -> None:
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    baselines = 0
    for series in plot.series:
        if series.style == "baseline":
            _draw_baseline(axes, series, baselines)
            baselines += 1
        else:
            _draw_series(axes, series, looks[series.label])
    _scale(axes, plot)
    # Below the axes, where it hides no data.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=_legend_columns(plot), columnspacing=1.4)


def _draw_series(axes: Any, series: Series, look: int) -> None:
    # With all colours used up, they come again with other markers.
    colour, marker = _COLOURS[look % len(_COLOURS)], _MARKERS[(look + look // len(_COLOURS)) % len(_MARKERS)]
    if series.low is not None and series.high is not None:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, linewidth=0)
    if series.style == "paper":
        axes.plot(
            series.x,
            series.y,
            color=colour,
            marker=marker,
            label=_label(series),
            linestyle=(0, (4, 2)),
            linewidth=1.3,
            markersize=7,
            markerfacecolor="white",
            markeredgewidth=1.3,
        )
    else:
        axes.plot(series.x, series.y, color=colour, marker=marker, label=_label(series), zorder=3)


def _draw_baseline(axes: Any, series: Series, number: int) -> None:
    grey, line = _GREYS[number // len(_GREY_LINES) % len(_GREYS)], _GREY_LINES[number % len(_GREY_LINES)]
    if series.low is not None and series.high is not None:
        axes.fill_between(series.x, series.low, series.high, color=grey, alpha=0.15, linewidth=0)
    # A baseline may be known at one place only; a line through one point would not show.
    marker = "_" if len(series.x) == 1 else ""
    axes.plot(series.x, series.y, color=grey, linestyle=line, marker=marker, markersize=14, label=_label(series), zorder=1.5)


def _label(series: Series) -> str:
    said = f"{series.label}, paper" if series.style == "paper" else series.label
    return fill(said, _LABEL_LINE)


def _legend_columns(plot: Plot) -> int:
    """Long labels side by side would be wider than the axes."""
    return 2 if all(len(_label(each)) <= _SHORT_LABEL for each in plot.series) else 1


def _legend_rows(plot: Plot) -> int:
    lines = sum(_label(each).count("\n") + 1 for each in plot.series)
    return -(-lines // _legend_columns(plot))


def _scale(axes: Any, plot: Plot) -> None:
    if plot.x_log:
        axes.set_xscale("log", base=2)
        _tick_where_measured(axes, plot)
    if plot.y_log:
        axes.set_yscale("log")
        return
    shown = [figure for each in plot.series for figures in (each.y, each.low or (), each.high or ()) for figure in figures]
    # Zero is shown unless that would squeeze everything into the upper half.
    if shown and 0 <= min(shown) <= max(shown) / 2:
        axes.set_ylim(bottom=0)


def _tick_where_measured(axes: Any, plot: Plot) -> None:
    """On a logarithmic axis, 100, 200, 400 say more than powers of the base."""
    from matplotlib.ticker import NullFormatter, NullLocator

    measured = sorted({x for series in plot.series for x in series.x})
    if len(measured) <= _MOST_TICKS:
        axes.set_xticks(measured, [f"{x:,g}" for x in measured])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
