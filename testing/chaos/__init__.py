"""Faults on purpose, on a real service: what `make chaos`, `make soak` and the tests of faults are made of.

processes   who belongs to a service; killing and freezing
moments     when, by a seed. Pure
load        a seeded stream of messages that goes on whatever happens
verdict     the service held to the reference over the same log
damage      files cut short, zeroed, with a bit turned over
stage       a Kafka, a service and a stream, to be put to a test
scenarios   the tests; `python -m testing.chaos` runs them
soak        a long mixed run; `python -m testing.chaos.soak`
"""
