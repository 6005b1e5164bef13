"""What is published and asked for in the experiments on ADOCK: quotes of 62 stocks, readings of 162 road sensors.

The real data is not part of the project. It is read from the folder that the environment variable ``TIDINGS_DATA`` names, or
else from ``../shared/data`` beside the project. Where a file is missing, a data set of the same shape is made up, and
`Dataset.origin` says so.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.predicate import Compare, Op

FOLDER = "TIDINGS_DATA"
STOCK, TRAFFIC = "stock", "traffic"
STOCKS, SENSORS = 62, 162
QUOTES_FILE, ASKED_FILE = "stocks_62symbols_1999_2004.csv.gz", "stocks_subscriptions.txt"
READINGS_FILE = "traffic_162sensors_2014-09-01_02.csv.gz"

SELECTIVITY = {STOCK: 0.02, TRAFFIC: 0.01}
"""The share of publications that a subscription matches, as the paper has it: "around"."""

_STOCK_AT_LEAST = SELECTIVITY[STOCK] / 2
_TRAFFIC_WITHIN = 0.3
_NEAR = (2, 6)  # how many sensors a subscription to readings is about, at least
_GENERATED_DAYS, _GENERATED_READINGS = 500, 288

Column: TypeAlias = NDArray[Any]
Where: TypeAlias = tuple[Compare, ...]
"""Conditions that must all hold."""

_NUMPY: Mapping[Op, Callable[[Column, object], NDArray[np.bool_]]] = {
    Op.EQ: lambda column, value: column == value,
    Op.LT: lambda column, value: column < value,
    Op.LE: lambda column, value: column <= value,
    Op.GT: lambda column, value: column > value,
    Op.GE: lambda column, value: column >= value,
}


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Rows to publish, in order, as columns; ``publisher`` numbers who publishes each. ``asked`` are subscriptions that came
    with the data, if any."""

    name: str
    columns: Mapping[str, Column]
    publisher: NDArray[np.int64]
    asked: Sequence[Where]
    origin: str

    def __len__(self) -> int:
        return len(self.publisher)

    def row(self, number: int) -> dict[str, str | float]:
        """One publication's facts."""
        return {name: column[number].item() for name, column in self.columns.items()}


def folder() -> Path:
    """Where the real data is looked for."""
    given = os.environ.get(FOLDER)
    return Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"


def dataset(name: str) -> Dataset:
    """The data set of that name: the real one where it is there."""
    return _dataset(name, folder())


@lru_cache(maxsize=8)
def _dataset(name: str, place: Path) -> Dataset:
    needed = (QUOTES_FILE, ASKED_FILE) if name == STOCK else (READINGS_FILE,)
    missing = [file for file in needed if not (place / file).is_file()]
    if missing:
        why = f"made up, of the same shape: {' and '.join(missing)} not found; {FOLDER} can name another folder"
        return made_up_quotes(why) if name == STOCK else made_up_readings(why)
    return _quotes(place) if name == STOCK else _readings(place)


# ---- the real data ----------------------------------------------------------------------------------------------------


def _quotes(place: Path) -> Dataset:
    rows = _rows(place / QUOTES_FILE)
    columns = _columns(rows, text=("symbol",), numbers=("open", "high", "low", "close", "volume"))
    asked = [read_asked(line) for line in (place / ASKED_FILE).read_text(encoding="utf-8").splitlines() if line.strip()]
    return Dataset(STOCK, columns, _numbered(columns["symbol"]), asked, f"real ({QUOTES_FILE}, {ASKED_FILE})")


def _readings(place: Path) -> Dataset:
    columns = _columns(
        _rows(place / READINGS_FILE),
        text=("report_id", "street", "region", "road_type"),
        numbers=("lat", "lon", "avg_measured_time", "avg_speed", "vehicle_count"),
    )
    return Dataset(TRAFFIC, columns, _numbered(columns["report_id"]), (), f"real ({READINGS_FILE})")


def _rows(file: Path) -> list[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _columns(rows: Sequence[Mapping[str, str]], text: Sequence[str], numbers: Sequence[str]) -> dict[str, Column]:
    found: dict[str, Column] = {name: np.array([row[name] for row in rows]) for name in text}
    return found | {name: np.array([row[name] for row in rows], dtype=float) for name in numbers}


def _numbered(names: Column) -> NDArray[np.int64]:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def read_asked(line: str) -> Where:
    """A subscription as PADRES writes it. That it is about stocks goes without saying.

    >>> read_asked("[class,eq,STOCK],[symbol,eq,AAPL],[open,<,126.66]")
    (Compare(field='symbol', op=<Op.EQ: '='>, value='AAPL'), Compare(field='open', op=<Op.LT: '<'>, value=126.66))
    """
    found = [
        Compare(name, Op.EQ if op == "eq" else Op(op), value if op == "eq" else float(value))
        for name, op, value in re.findall(r"\[([^,\]]+),([^,\]]+),([^\]]+)\]", line)
        if name != "class"
    ]
    if not found:
        raise ValueError(f"no conditions in {line!r}")
    return tuple(found)


# ---- made-up data -----------------------------------------------------------------------------------------------------


def made_up_quotes(origin: str) -> Dataset:
    """Every stock a random walk; the stocks in turn, day by day."""
    rng = np.random.default_rng(62)
    walks = np.exp(rng.uniform(0.5, 4.5, STOCKS) + rng.normal(0, 0.02, (_GENERATED_DAYS, STOCKS)).cumsum(axis=0))
    opened = np.round(walks, 2).ravel()
    high, low = (np.round(opened * (1 + side * rng.uniform(0, 0.04, opened.size)), 2) for side in (1, -1))
    names = np.array([f"S{number:02d}" for number in range(STOCKS)])
    columns = {
        "symbol": np.tile(names, _GENERATED_DAYS),
        "open": opened,
        "high": high,
        "low": low,
        "close": np.round((high + low) / 2, 2),
        "volume": np.round(rng.lognormal(12, 1.5, opened.size)),
    }
    highest = walks.max(axis=0)
    asked = [
        (
            Compare("symbol", Op.EQ, str(names[number])),
            Compare("open", Op.LT, round(float(highest[number] * rng.uniform(0.7, 1.5)), 2)),
            Compare("high", Op.LT, round(float(highest[number] * rng.uniform(0.7, 1.5)), 2)),
        )
        for number in rng.integers(0, STOCKS, 1000)
    ]
    return Dataset(STOCK, columns, _numbered(columns["symbol"]), asked, origin)


def made_up_readings(origin: str) -> Dataset:
    """Every sensor has a place and a usual speed, and is slower in two rush hours."""
    rng = np.random.default_rng(162)
    count = SENSORS * _GENERATED_READINGS
    sensor = np.tile(np.arange(SENSORS), _GENERATED_READINGS)
    hour = np.repeat(np.arange(_GENERATED_READINGS) * 24 / _GENERATED_READINGS, SENSORS)
    rush = np.exp(-((hour - 8) ** 2)) + np.exp(-((hour - 16.5) ** 2) / 2)
    speed = np.clip(np.round(rng.normal(rng.uniform(30, 100, SENSORS)[sensor] * (1 - 0.4 * rush), 6)), 0, 140)
    columns = {
        "report_id": np.array([f"{158_000 + number}" for number in range(SENSORS)])[sensor],
        "street": np.array([f"street {number % 48}" for number in range(SENSORS)])[sensor],
        "region": np.array([f"region {number % 12}" for number in range(SENSORS)])[sensor],
        "road_type": np.full(count, "MAJOR_ROAD"),
        "lat": np.round(rng.uniform(56.1, 56.25, SENSORS), 6)[sensor],
        "lon": np.round(rng.uniform(10.0, 10.3, SENSORS), 6)[sensor],
        "avg_measured_time": np.round(rng.uniform(1_000, 4_000, SENSORS)[sensor] / np.maximum(speed, 1)),
        "avg_speed": speed,
        "vehicle_count": rng.poisson(1 + 12 * rush).astype(float),
    }
    return Dataset(TRAFFIC, columns, _numbered(columns["report_id"]), (), origin)


# ---- subscriptions ----------------------------------------------------------------------------------------------------


def matching(data: Dataset, where: Where) -> NDArray[np.bool_]:
    """Which rows meet all conditions."""
    found = np.ones(len(data), dtype=np.bool_)
    for condition in where:
        found &= _NUMPY[condition.op](data.columns[condition.field], condition.value)
    return found


@lru_cache(maxsize=32)
def subscriptions(data: Dataset, seed: int, count: int, crosswise: bool = False) -> tuple[Where, ...]:
    """``count`` subscriptions of about the paper's selectivity; those of a smaller number are the first of a larger one.

    To quotes, ``crosswise`` draws some that ask for no symbol, so that any two may have publications in common.
    """
    rng = np.random.default_rng([seed, 1])
    if crosswise:
        return tuple(_crosswise(data, rng) for _ in range(count))
    if not data.asked:
        return tuple(_about_a_place(data, rng) for _ in range(count))
    fitting = _fitting(data)
    if count > len(fitting):
        raise ValueError(f"{count} subscriptions are asked for, and {len(fitting)} are there")
    return tuple(fitting[number] for number in rng.permutation(len(fitting))[:count])


@lru_cache(maxsize=8)
def _fitting(data: Dataset) -> list[Where]:
    """The subscriptions that came with the data, without those that hardly match anything."""
    return [where for where in data.asked if matching(data, where).mean() >= _STOCK_AT_LEAST]


def _about_a_place(data: Dataset, rng: np.random.Generator) -> Where:
    """Readings from a box around some neighbouring sensors, of the slower or the faster kind: 1 % of all, give or take.

    There is none for a box that holds too little, or where too many readings are equal; another one is drawn then.
    """
    lat, lon, speed = (data.columns[name] for name in ("lat", "lon", "avg_speed"))
    _, first = np.unique(data.publisher, return_index=True)
    for _ in range(1000):
        centre = rng.integers(len(first))
        aside = (lat[first] - lat[first[centre]]) ** 2 + (lon[first] - lon[first[centre]]) ** 2
        near = first[np.argsort(aside, kind="stable")[: rng.integers(_NEAR[0], _NEAR[1] + 1)]]
        box = tuple(
            Compare(name, op, float(bound))
            for name, column in (("lat", lat), ("lon", lon))
            for op, bound in ((Op.GE, column[near].min()), (Op.LE, column[near].max()))
        )
        inside = matching(data, box)
        share = min(1.0, SELECTIVITY[TRAFFIC] / inside.mean())
        slow = bool(rng.integers(2))
        bound = float(np.quantile(speed[inside], share if slow else 1 - share))
        where = (*box, Compare("avg_speed", Op.LE if slow else Op.GE, bound))
        if abs(matching(data, where).mean() / SELECTIVITY[TRAFFIC] - 1) <= _TRAFFIC_WITHIN:
            return where
    raise ValueError("the readings have no place with enough of them to ask for")


def _crosswise(data: Dataset, rng: np.random.Generator) -> Where:
    """Quotes of a range of prices, and of those a range of volumes: 2 % of all."""
    price, volume = data.columns["open"], data.columns["volume"]
    share = rng.uniform(0.05, 0.5)
    priced = _between("open", price, share, rng)
    traded = _between("volume", volume[matching(data, priced)], SELECTIVITY[STOCK] / share, rng)
    return (*priced, *traded)


def _between(name: str, among: Column, share: float, rng: np.random.Generator) -> Where:
    """A range of a column that holds this share of some values."""
    begin = rng.uniform(0, 1 - share)
    low, high = np.quantile(among, [begin, begin + share])
    return Compare(name, Op.GE, float(low)), Compare(name, Op.LE, float(high))
