"""Who serves which broker, as the ticks say."""

from __future__ import annotations

import pytest

from service.clock import ownership
from streaming.wire.clock import Tick
from tidings.errors import BrokerTaken


class Clock:
    """What the clock's Kafka topic says, look after look; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: list[Tick]) -> None:
        self.looks = list(looks)
        monkeypatch.setattr(ownership, "_LOOK_S", 0.01)
        monkeypatch.setattr(ownership.control, "living", lambda _: self._look())
        monkeypatch.setattr(ownership.control, "last_ticks", lambda _: self._look())

    def _look(self) -> dict[str, Tick]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {tick.service: tick for tick in look}


def tick(service: str, brokers: str | None, offset: int) -> Tick:
    return Tick(service, 1, brokers=None if brokers is None else frozenset(brokers.split(",")), offset=offset)


def free(brokers: str | None, gone_s: float = 0.1) -> None:
    wanted = None if brokers is None else frozenset(brokers.split(","))
    ownership.wait_until_free(None, "me", wanted, lambda _: None, gone_s)


@pytest.mark.parametrize(("theirs", "mine"), [("b2", "b2,b3"), (None, "b1"), ("b1", None), (None, None)])
def test_who_ticks_again_is_alive(monkeypatch: pytest.MonkeyPatch, theirs: str | None, mine: str | None) -> None:
    Clock(monkeypatch, [tick("other", theirs, 1)], [tick("other", theirs, 2)])
    with pytest.raises(BrokerTaken, match="the service other serves"):
        free(mine)


def test_other_brokers_and_my_own_ticks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, [tick("other", "b1,b2", 1), tick("me", "b3", 2)])
    free("b3,b4")


def test_one_that_was_killed_stops_ticking_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, [tick("dead", "b1", 1)], [tick("dead", "b1", 1)], [])
    free("b1")


def test_one_that_seems_alive_to_the_end_is_not_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, [tick("slow", "b1", 1)])
    with pytest.raises(BrokerTaken):
        free("b1")


def test_of_two_that_start_at_once_the_first_to_tick_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, [tick("me", "b1", 7), tick("other", "b1", 8)])
    ownership.check_first(None, "me", frozenset({"b1"}))
    Clock(monkeypatch, [tick("me", "b1", 8), tick("other", "b1", 7)])
    with pytest.raises(BrokerTaken):
        ownership.check_first(None, "me", frozenset({"b1"}))
