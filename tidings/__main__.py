"""`python -m tidings` is `tidings`."""

from cli.main import run

run()
