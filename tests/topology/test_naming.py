"""Names of brokers: legal, as readable as the labels they come from, and all different."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.control.files import check
from topology.naming import broker_names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b1", "core_2", "a-b"], ("b1", "core_2", "a-b")),
        (["New York", "St. Gallen", "Sète (Montpellier)"], ("New-York", "St-Gallen", "Sete-Montpellier")),
        (["Białystok", "Århus", "Gießen", "Ra’s al Khaymah"], ("Bialystok", "Arhus", "Giessen", "Ras-al-Khaymah")),
        (["x", "x", "x-2", "x"], ("x", "x-2", "x-2-2", "x-3")),
        (["東京", "", "Kyoto"], ("b1", "b2", "Kyoto")),
        (["…"] * 10, ("b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b09", "b10")),
        (["a" * 90, "a" * 85], ("a" * 80, "a" * 78 + "-2")),
    ],
)
def test_labels_become_names(labels: list[str], names: tuple[str, ...]):
    assert broker_names(labels) == names


@given(st.lists(st.one_of(st.text(max_size=100), st.sampled_from(["x", "x-2", "b1", "-", "é"])), max_size=20))
def test_names_are_legal_and_all_different(labels: list[str]):
    names = broker_names(labels)
    assert len(set(names)) == len(labels)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name) for name in names)
    for name in names:
        check(f"broker/{name}", {"kind": "broker", "name": name})  # a service would take it
