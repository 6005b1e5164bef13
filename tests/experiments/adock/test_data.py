"""The data of the experiments on ADOCK: as it is where it is there, and made up of the same shape where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.adock import data as adock_data
from experiments.adock.data import ASKED_FILE, FOLDER, QUOTES_FILE, READINGS_FILE, STOCK, TRAFFIC, Dataset
from tidings.predicate import And, Compare, Op, Truth, evaluate


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))


MADE_UP = pytest.mark.usefixtures("no_files")


def real(name: str) -> Dataset:
    found = adock_data.dataset(name)
    if not found.origin.startswith("real"):
        pytest.skip(found.origin)
    return found


# ---- where it comes from ----------------------------------------------------------------------------------------------


def test_the_folder_is_named_or_beside_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "/somewhere")
    assert adock_data.folder() == Path("/somewhere")
    monkeypatch.delenv(FOLDER)
    assert adock_data.folder() == Path(__file__).resolve().parents[4] / "shared" / "data"


@MADE_UP
@pytest.mark.parametrize(
    ("name", "missing"), [(STOCK, f"{QUOTES_FILE} and {ASKED_FILE} not found"), (TRAFFIC, f"{READINGS_FILE} not found")]
)
def test_what_is_missing_is_made_up_and_said(name: str, missing: str) -> None:
    origin = adock_data.dataset(name).origin
    assert origin.startswith("made up, of the same shape")
    assert missing in origin


@MADE_UP
def test_the_made_up_data_has_the_shape_of_the_real() -> None:
    stock, traffic = adock_data.dataset(STOCK), adock_data.dataset(TRAFFIC)
    assert len(np.unique(stock.publisher)) == len(np.unique(stock.columns["symbol"])) == 62
    assert len(np.unique(traffic.publisher)) == len(np.unique(traffic.columns["report_id"])) == 162
    assert stock.publisher[:62].tolist() == list(range(62))
    assert np.all(stock.columns["low"] <= stock.columns["high"])
    for data in (stock, traffic):
        assert {len(column) for column in data.columns.values()} == {len(data)}


def test_the_real_quotes_are_read() -> None:
    data = real(STOCK)
    assert len(data) == 92_606
    assert len(np.unique(data.publisher)) == 62
    assert data.row(1) | {"symbol": "AAPL", "open": 42.13, "volume": 8_512_300} == data.row(1)
    assert len(data.asked) == 1000
    assert data.asked[1] == (
        Compare("symbol", Op.EQ, "AAPL"),
        Compare("open", Op.LT, 126.66),
        Compare("high", Op.LT, 203.79),
    )


def test_the_real_readings_are_read() -> None:
    data = real(TRAFFIC)
    assert len(data) == 91_920
    assert len(np.unique(data.publisher)) == 162
    assert data.row(0) | {"report_id": "158324", "region": "Hinnerup", "avg_speed": 72, "lat": 56.231721} == data.row(0)


def test_the_made_up_and_the_real_data_have_the_same_columns() -> None:
    for name, made_up in ((STOCK, adock_data.made_up_quotes), (TRAFFIC, adock_data.made_up_readings)):
        assert set(made_up("").columns) == set(real(name).columns)


def test_a_line_without_conditions_is_refused() -> None:
    with pytest.raises(ValueError, match="no conditions"):
        adock_data.read_asked("[class,eq,STOCK]")


# ---- subscriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "crosswise", "least", "most"),
    [(STOCK, False, 0.01, 0.017), (STOCK, True, 0.016, 0.03), (TRAFFIC, False, 0.007, 0.013)],
)
@pytest.mark.parametrize("place", ["made up", "real"])
def test_subscriptions_have_about_the_papers_selectivity(
    name: str, crosswise: bool, least: float, most: float, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "made up":
        monkeypatch.setenv(FOLDER, str(tmp_path))
    data = adock_data.dataset(name) if place == "made up" else real(name)
    shares = [adock_data.matching(data, where).mean() for where in adock_data.subscriptions(data, 1, 60, crosswise)]
    assert least <= min(shares) <= max(shares) <= most


@MADE_UP
@pytest.mark.parametrize(("name", "crosswise"), [(STOCK, False), (STOCK, True), (TRAFFIC, False)])
def test_matching_many_rows_at_once_is_matching_each(name: str, crosswise: bool) -> None:
    data = adock_data.dataset(name)
    rows = range(0, len(data), len(data) // 400)
    some = 0
    for where in adock_data.subscriptions(data, 2, 8, crosswise):
        found = adock_data.matching(data, where)
        assert [bool(found[row]) for row in rows] == [evaluate(And(where), data.row(row)) is Truth.TRUE for row in rows]
        some += sum(bool(found[row]) for row in rows)
    assert some > 0


@MADE_UP
@pytest.mark.parametrize("name", [STOCK, TRAFFIC])
def test_fewer_subscriptions_are_the_first_of_more(name: str) -> None:
    data = adock_data.dataset(name)
    many = adock_data.subscriptions(data, 1, 30)
    assert adock_data.subscriptions(data, 1, 9) == many[:9]
    assert adock_data.subscriptions(data, 2, 9) != many[:9]


@MADE_UP
def test_there_are_enough_for_the_papers_most() -> None:
    data = adock_data.dataset(STOCK)
    assert len(set(adock_data.subscriptions(data, 1, 450))) > 400
    with pytest.raises(ValueError, match="100000 subscriptions are asked for"):
        adock_data.subscriptions(data, 1, 100_000)


@MADE_UP
def test_subscriptions_crosswise_have_publications_in_common() -> None:
    """Those to a symbol have none, unless it is the same."""
    data = adock_data.dataset(STOCK)

    def in_common(crosswise: bool) -> float:
        """The share of pairs that have."""
        matches = np.column_stack([adock_data.matching(data, each) for each in adock_data.subscriptions(data, 1, 40, crosswise)])
        pairs = matches[:2000].T.astype(int) @ matches[:2000]
        return float(np.triu(pairs > 0, k=1).sum() / (40 * 39 / 2))

    assert in_common(True) > 5 * in_common(False)
