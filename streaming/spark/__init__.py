"""The logic on Spark."""

DAEMON = "streaming.spark.daemon"
"""The module that Spark's Python daemon and its workers run; their command lines name it."""
