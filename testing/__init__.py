"""Test kits: what tests are made of, out of the way of the product. None of it is in the wheel.

- `testing.logs`: a log written by hand and what a service that does right would have written; no Kafka, no Spark.
- `testing.commands`: a command run in this process, with what it printed and how it ended.
- `testing.service`: `tidings up` as a child process, to be published to, asked, stopped and killed; `inspect` holds it to
  the reference.
- `testing.cluster`: a Spark master and two workers on this machine, for a service that runs on a cluster.
- `testing.tls`: certificates for a Kafka that asks who you are.
- `testing.chaos`: faults on purpose on a real service, and the verdict; what `make chaos` and `make soak` run.

What needs neither Kafka nor Spark because it has both in memory is `streaming.world`.
"""
