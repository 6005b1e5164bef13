"""How brokers that only talk to their neighbours would find trees and centres by themselves, as the papers have it.

A specification: nothing here runs in the service, which computes the same in one place (`topology.routes`, `topology.centre`).
Laws hold the two equal, after any sequence of joins, leaves and failures. Experiments count its messages.
"""
