"""A message that comes by ways which are not known here yet waits for them; not for ever."""

from __future__ import annotations

import pytest

from streaming.broker import state_codec
from streaming.broker.state import Rules
from streaming.model.outputs import Send
from streaming.world.one_broker import Script
from streaming.world.records import broker, link, subscription, topic

RULES = Rules(patience_ms=5_000)


def chain(*more: dict, rules: Rules = RULES, **declared: object) -> Script:
    """Seen from b2, between b1 and b3; somebody listens at b2."""
    script = Script(rules=rules)
    brokers, links = map(broker, ("b1", "b2", "b3")), (link("b1", "b2"), link("b2", "b3"))
    script.control(topic(window_ms=60_000, **declared), *brokers, *links, subscription("here", broker="b2"), *more)
    return script


def ahead(script: Script, by: int = 1, **more: object) -> None:
    """A neighbour that goes by a later version passes a message on."""
    script.pass_on({"speed": 3}, "E45", way_ms=10, sender="b1", broker="b2", version=max(script.snapshots) + by, **more)


def sent(script: Script) -> list[str]:
    return [output.to for output in script.run()[1] if isinstance(output, Send)]


@pytest.mark.parametrize("declared", [{"gather": False}, {"gatherer": "none"}], ids=["a measurement", "nobody gathers"])
class TestWaiting:
    def test_it_is_held_until_the_version_is_known_and_then_goes_by_the_new_ways(self, declared):
        script = chain(**declared)
        ahead(script)
        assert script.told() == []
        assert script.books().to_dict()["held"] == 1
        script.wait(500)
        script.control(subscription("beyond", broker="b3"))
        assert [each.news for each in script.told("here")] == [{"speed": 3}]
        assert sent(script) == ["b3"]
        assert script.put_aside() == []
        assert script.books().balanced
        assert script.books().to_dict()["held"] == 0

    def test_an_older_version_than_its_own_does_not_do(self, declared):
        script = chain(**declared)
        ahead(script, by=2)
        script.control(subscription("beyond", broker="b3"))
        assert script.told() == []
        script.control(subscription("also", broker="b3"))
        assert len(script.told("here")) == 1
        assert sent(script) == ["b3"]

    def test_patience_ends_it_goes_by_the_old_ways_and_is_put_aside_as_well(self, declared):
        script = chain(**declared)
        ahead(script)
        script.tick(4_900)
        assert script.told() == []
        script.tick(200)
        assert len(script.told("here")) == 1
        (aside,) = script.put_aside()
        assert (aside.outcome, aside.reason) == ("late", "cut-off")
        assert "'b2' goes by version" in aside.detail
        assert script.books().left_out["ahead"] == 1
        assert script.books().balanced

    def test_a_full_bucket_puts_it_aside(self, declared):
        script = chain(rules=Rules(open_events=2), **declared)
        ahead(script)
        for number in range(3):
            script.publish({"speed": number}, f"other {number}", broker="b2")
        (aside,) = script.put_aside()
        assert (aside.outcome, aside.reason) == ("late", "cut-off")
        assert script.books().balanced

    def test_it_survives_as_bytes(self, declared):
        script = chain(**declared)
        ahead(script, id="m1")
        state, _ = script.run()
        assert state.slots["b2", "incident", "E45"].ahead
        assert state_codec.encode(state_codec.decode(state_codec.encode(state))) == state_codec.encode(state)
        assert state_codec.decode(state_codec.encode(state)).slots == state.slots


def test_a_broker_that_does_not_know_yet_that_it_is_there_waits_instead_of_sending_it_back():
    script = Script(rules=RULES)
    script.control(topic(gather=False), broker("b1"), broker("b3"), subscription("here", broker="b2"))
    ahead(script, by=2)
    assert sent(script) == []
    script.control(broker("b2"), link("b1", "b2"))
    assert [each.news for each in script.told("here")] == [{"speed": 3}]
    assert script.books().balanced


def test_what_the_broker_that_gathers_remembers_does_not_wait():
    script = Script(rules=RULES)
    script.control(topic(), broker("b1"), broker("b2"), link("b1", "b2"), subscription("here", broker="b2"))
    place = script.plan_at(max(script.snapshots)).place("b1", "incident")
    assert place.role == "gathers"
    script.pass_on({"what": "fire"}, way_ms=10, sender="b2", broker="b1", version=max(script.snapshots) + 1)
    assert sent(script) == ["b2"]
