"""The side pipeline: for each link and window it decides whether publications cross or their aggregate, and closes windows.

Brokers offer; this decides, when a window expires. Links are dealt out to buckets, as events are in the main pipeline, and
`step` is the one door.
"""
