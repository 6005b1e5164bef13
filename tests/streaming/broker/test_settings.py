"""What the settings of a service mean to the logic."""

from __future__ import annotations

from dataclasses import fields

from streaming.broker.settings import message_limits_of, rules_of
from streaming.broker.state import Rules
from streaming.wire.message import MessageLimits
from tidings.config import Config, Limits
from tidings.registers import Bounds


def test_every_limit_that_can_be_set_bounds_something():
    numbers = {each.name: 1000 + number for number, each in enumerate(fields(Limits))}
    config = Config(limits=Limits(**numbers))
    rules = rules_of(config)
    bounds = rules, rules.bounds, message_limits_of(config)
    assert {name: getattr(each, name) for each in bounds for name in numbers if hasattr(each, name)} == numbers


def test_a_bucket_keeps_its_share_of_the_open_events():
    assert [rules_of(Config(limits=Limits(open_events=10)), buckets).open_events for buckets in (1, 3, 20)] == [10, 3, 1]


def test_what_nobody_sets_is_what_the_logic_has_by_itself():
    assert (rules_of(Config()), rules_of(Config()).bounds, message_limits_of(Config())) == (Rules(), Bounds(), MessageLimits())
