"""The Spark session the query runs in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

_END_S = 10.0
_STATE = "spark.sql.streaming.stateStore"

_SETTINGS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    # A bucket's state is sent to Python again for every Arrow chunk: one chunk should hold a bucket's rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start_session(
    master: str,
    jars: Sequence[Path],
    *,
    shuffle_partitions: int,
    driver_memory: str = "1g",
    ui: bool = False,
    log_config: Path | None = None,
    local_dir: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark with the connector jars given by path: nothing is resolved over the network.

    ``shuffle_partitions`` is fixed for the life of a checkpoint.
    """
    # Without this the workers run whichever `python3` is on the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        **(_SETTINGS if local else {k: v for k, v in _SETTINGS.items() if not k.startswith("spark.driver.")}),
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": str(ui).lower(),
        **(extra or {}),
    }
    if log_config is not None:
        settings["spark.driver.extraJavaOptions"] = f'-Dlog4j2.configurationFile="{log_config.resolve().as_uri()}"'
    if local_dir is not None:
        settings["spark.local.dir"] = str(local_dir)
    builder = SparkSession.builder.master(master).appName("tidings")
    for name, value in settings.items():
        builder = builder.config(name, value)
    interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        # PySpark takes Ctrl-C for itself; who started the session decides what it means.
        signal.signal(signal.SIGINT, interrupt)
    return session


def stop_session(session: SparkSession) -> None:
    """Stop Spark and its Java process: PySpark alone would leave that until Python ends, and then not wait for it."""
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
