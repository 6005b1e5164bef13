"""An adaptive filter: never much worse than asking every profile, and it says what it chose."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.broker.filtering import SAMPLE
from streaming.broker.state import FilterMode
from streaming.model.outputs import FilterDecided
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message

STAR = [broker(f"b{n}") for n in range(1, 5)] + [link("b1", f"b{n}") for n in range(2, 5)]
WINDOW_MS = 10_000
phases = st.lists(st.tuples(st.sampled_from([0.0, 0.05, 0.5, 0.97, 1.0]), st.integers(20, 150)), min_size=1, max_size=4)


def run(filtering: str, shares: list[tuple[float, int]], every_ms: int = 100) -> Simulator:
    """Measurements at b1; in each phase a share of them is wanted at every other broker."""
    wants = [subscription(f"s{n}", broker=f"b{n}", where="v < 100", deliver=f"notify.s{n}") for n in (2, 3, 4)]
    simulator = Simulator(plan(*STAR, topic(gather=False, filter=filtering, window_ms=WINDOW_MS), *wants), lambda *_: 1)
    simulator.keep_outputs = True
    at_ms = 0
    for share, count in shares:
        for number in range(count):
            wanted = int(share * (number + 1)) > int(share * number)
            simulator.publish(at_ms, "b1", Message("incident", f"k{at_ms}", {"v": 1 if wanted else 200}))
            at_ms += every_ms
    simulator.run()
    return simulator


def decisions(simulator: Simulator) -> list[FilterDecided]:
    return [output for _, output in simulator.outputs if isinstance(output, FilterDecided)]


@settings(max_examples=8, deadline=None)
@given(phases)
def test_it_sends_little_more_than_had_to_be(shares):
    asked, adaptive = run("profile", shares), run("adaptive", shares)
    told = sorted((t.notification.subscription, t.notification.key) for _, t in asked.told)
    assert sorted((t.notification.subscription, t.notification.key) for _, t in adaptive.told) == told
    between_samples = 3 * SAMPLE * len(shares)
    assert asked.link_messages <= adaptive.link_messages <= 1.05 * asked.link_messages + between_samples


def test_it_stops_asking_where_all_is_wanted_and_starts_again_when_that_ends():
    simulator = run("adaptive", [(1.0, 400), (0.1, 300)])
    made = decisions(simulator)
    stopped = next(number for number, each in enumerate(made) if each.choice is FilterMode.EVENT)
    again = next(number for number, each in enumerate(made) if number > stopped and each.choice is FilterMode.PROFILE)
    assert "asking saves little" in made[stopped].reason
    assert "nobody beyond wants" in made[again].reason
    assert made[-1].choice is FilterMode.PROFILE
    assert made[stopped + 1].offered > made[stopped + 1].would["profile"] * 0.9


def test_regular_traffic_does_not_keep_out_of_the_samples_way():
    """Two sorts that take turns: every eighth would always be of the same sort."""
    asked, adaptive = (run(filtering, [(1.0, 300), (0.5, 500)]).link_messages for filtering in ("profile", "adaptive"))
    assert adaptive <= 1.05 * asked


def test_it_says_what_each_way_would_have_sent():
    first = decisions(run("adaptive", [(0.5, 150)]))[0]
    assert (first.sender, first.topic, first.choice) == ("b1", "incident", FilterMode.PROFILE)
    assert first.would["event"] == first.offered == 300
    assert first.would["profile"] == first.sent == 150
    assert first.would["profile"] <= first.would["rendezvous"] <= first.would["event"]
    assert "50.0% of 300" in first.reason
