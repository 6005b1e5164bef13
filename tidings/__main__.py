"""`python -m tidings` is `tidings`."""

from tidings.cli.main import run

run()
