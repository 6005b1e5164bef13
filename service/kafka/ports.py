"""Ports on the loopback interface: which are free, and one to keep."""

from __future__ import annotations

import random
import socket

from tidings.errors import CannotRun

HOST = "127.0.0.1"

# Below the ports that systems hand out for outgoing connections. Within that range, a client that keeps trying to reach a stopped
# broker can be given the broker's own port, connect to itself, and keep the broker from coming back.
_CHOICE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # As Java does: connections of the former server that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(other_than: int = 0) -> int:
    """A port nobody listens on, chosen at random: two services that start together rarely take the same."""
    for port in random.sample(_CHOICE, 200):
        if port != other_than and is_free(port):
            return port
    raise CannotRun(f"found no free port between {_CHOICE.start} and {_CHOICE.stop}; give a port")
