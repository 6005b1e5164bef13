"""A world in memory to try things in: brokers, links and both pipelines of the service, and a clock that you move by hand.

>>> world = World([broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")])
>>> world.control(subscription("ops", "incident", broker="b3"))
>>> world.publish("b1", {"what": "fire"}, topic="incident", key="5th and Main")
>>> world.publish("b1", {"what": "fire"}, topic="incident", key="5th and Main")
>>> world.publish("b3", {"what": "fire", "injured": 2}, topic="incident", key="5th and Main", after_ms=500)
>>> world.advance(1000)
>>> [(told.reason.value, dict(told.news)) for told in world.told_to("ops")]
[('first', {'what': 'fire'}), ('news', {'injured': 2})]

All three reports went to b2, which gathers for the overlay. Only what was new went on.

>>> sorted(world.crossings.items())
[(('b1', 'b2', 'PassedOn'), 2), (('b2', 'b3', 'EventNews'), 2), (('b3', 'b2', 'PassedOn'), 1)]
"""

from streaming.world.records import advertisement, broker, link, plan, snapshot, subscription, topic
from streaming.world.window_reference import expected as expected_windows
from streaming.world.world import World

__all__ = ["World", "advertisement", "broker", "expected_windows", "link", "plan", "snapshot", "subscription", "topic"]
