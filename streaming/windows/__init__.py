"""Windows over a link: what crosses it as it came, and what is counted first and crosses as one aggregate.

The problem and its names are those of Pandey et al., "Minimizing the Communication Cost of Aggregation in Publish/Subscribe
Systems": a link's graph has the publications that did not cross it on one side and the open window ranges on the other, and
a set of messages that serves every range is a vertex cover of it.

Brokers offer; the pipeline of this room decides when a window expires. Links are dealt out to buckets, as events are in the
pipeline of events, and `pipeline.step` is the one door.
"""
