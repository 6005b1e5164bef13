"""What stands in Kafka: each format in one file, its writer beside its reader, with a golden file in the tests.

`inputs` reads the log for a broker's logic; `outgoing` makes records of what that logic says is to be done.
"""
