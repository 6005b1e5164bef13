"""The control data: topics, subscriptions, advertisements, brokers and links: records that change while the service runs.

A *snapshot* is the control data at one version; the version is the offset on the control Kafka topic up to which records are
counted, so the same version always means the same data. A record that cannot be applied changes nothing.
"""

from tidings.control.kinds.broker import DEFAULT_BROKER
from tidings.control.kinds.link import Link
from tidings.control.reader import Record
from tidings.control.snapshot import Snapshot, snapshot_path

__all__ = ["DEFAULT_BROKER", "Link", "Record", "Snapshot", "snapshot_path"]
