"""The soak: what counts as growth, and when it kills."""

from __future__ import annotations

from testing.chaos.soak import MEASURES, Sample, SoakPlan, grown


def samples(*java_mib: float) -> list[Sample]:
    return [Sample(float(n), (100.0, size, 100.0, 1.0, 0.0), n, n) for n, size in enumerate(java_mib)]


def test_growth_is_that_of_the_last_third_over_the_one_before():
    flat = grown(samples(300, 500, 600, 600, 601, 600, 605, 600, 599))
    assert flat == {**dict.fromkeys(MEASURES, 1.0)}
    assert grown(samples(1, 2, 3, 400, 400, 400, 500, 500, 500))["java MiB"] == 1.25
    assert grown(samples(1, 2)) == {}


def test_the_service_is_killed_in_the_first_third_only():
    for seed in range(20):
        plan = SoakPlan(minutes=30, seed=seed)
        assert len(plan.kills_s) == 6
        assert all(0 < at_s < 600 for at_s in plan.kills_s)
    assert len(SoakPlan(minutes=2, seed=1).kills_s) == 1
