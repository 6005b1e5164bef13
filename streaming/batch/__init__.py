"""The gatherer at full strength: what most messages say is known, and numbers tell so without opening them.

`streaming.broker.step` is the specification. This engine gives the same, message by message the same; it only looks at far fewer
of them. Messages cross into it as numbers (which event, which facts, whose), and those that provably change nothing but counts
are counted all at once. All others are given to the same functions that `step` is made of.
"""
