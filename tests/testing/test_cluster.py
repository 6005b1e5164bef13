"""The same service on a real Spark cluster: a master and two workers with one core each."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from producers.publisher import Publisher
from streaming.world.records import broker, link, subscription, topic
from testing.cluster import ON_THIS_MACHINE, StandaloneCluster
from testing.service import RunningService
from tidings.message import Message
from tidings.notification import Encoding

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(420)]


def test_on_a_cluster_the_service_tells_what_the_reference_tells(tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        env = {"TIDINGS_SPARK_MASTER": cluster.master, **ON_THIS_MACHINE}
        with RunningService.start(tmp_path / "dir", env, timeout_s=180) as service:
            assert [worker["coresused"] for worker in cluster.workers()] == [1, 1]
            published = run_a_stream(service)
            service.wait_received(published)
            service.wait_as_reference(60)
            assert service.books().balanced
            secret = (service.directory / "secret").read_text().strip()
        running = {worker["id"] for worker in cluster.workers()}
        assert len(running) == 2, "the workers outlive the service"
        pids = cluster.pids
    assert not any(map(psutil.pid_exists, pids))
    logs = [path for path in cluster.folder.rglob("*") if path.is_file() and path.suffix != ".jar"]
    assert any(path.name == "stderr" for path in logs), "executors have logs"
    assert [path for path in logs if secret in path.read_text(errors="replace")] == []


def run_a_stream(service: RunningService) -> int:
    """All sorts of messages through two brokers while the control data changes; returns how many were published."""
    held = topic("held", hold_ms=500, window_ms=4000, fields={"seen": "union", "level": "max"})
    service.apply(broker("b1"), broker("b2"), link("b1", "b2"), held, subscription("near", topic="held"))
    service.apply(subscription("far", topic="held", broker="b2", where="level >= 3", every_ms=1000))
    published = 0
    with Publisher(service.connection) as publisher:
        for number in range(300):
            fields = {"level": number % 7, "seen": (f"s{number % 5}",), f"f{number % 3}": number % 4}
            message = Message("held", f"k{number % 40}", fields, source=f"s{number % 9}")
            publisher.publish(message, Encoding.AVRO if number % 2 else Encoding.JSON)
            published += 1
            if number == 150:
                publisher.flush()
                service.apply(subscription("late-comer", topic="held", broker="b2"))
        publisher.publish_raw(b"rubbish")
        publisher.publish(Message("held", "k0", {"level": 1}, published_ms=1))
    return published + 2
