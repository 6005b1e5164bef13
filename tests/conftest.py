"""What tests share: one Java, one Kafka broker for the whole run."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java, find_java
from testing.service import RunningService

# A test that asks for one of these needs Java and takes seconds; `-m "not live"` leaves it out.
LIVE_FIXTURES = frozenset({"java", "kafka", "spark", "service_up"})
LONGEST = ("test_overlay.py", "test_windows.py", "test_chaos.py", "test_demo.py")

# How many examples a law is tried on; `make laws` looks longer. No deadlines: a slow moment of the machine is no fault.
settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quick")

# There is little garbage that nobody else removes, and most that is made while tests are collected stays.
gc.set_threshold(100_000, 20, 50)


def pytest_configure() -> None:
    # Shells ignore Ctrl-C for what they start in the background, and all that a test starts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if LIVE_FIXTURES & fixtures:
            item.add_marker(pytest.mark.live)
        if "service_up" in fixtures:
            item.add_marker(pytest.mark.shared)
    # The shared service runs from its first test to the end of the run: it comes last, not to slow the others down. Of the
    # others, files that take minutes come first: two run at a time, and none should be left alone at the end.
    items.sort(key=lambda item: ("service_up" in getattr(item, "fixturenames", ()), "at_the_end" in item.name, _place(item)))


def _place(item: pytest.Item) -> int:
    return LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)


def pytest_collection_finish() -> None:
    """Modules and collected tests live until the end: searching them for garbage again and again is a tenth of a run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()


@pytest.fixture(scope="session")
def kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that all tests share: use topic names of your own."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("kafka"), java) as broker:
        yield broker


@pytest.fixture(scope="session")
def service_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that all tests share: use event topics, subscriptions and keys of your own."""
    with RunningService.start(tmp_path_factory.mktemp("service") / "dir") as service:
        yield service
