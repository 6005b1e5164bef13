"""The Spark session the query runs in."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming.spark import DAEMON

_END_S = 10.0
_STATE = "spark.sql.streaming.stateStore"

_SETTINGS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # It holds a note for each bucket, a few dozen in all (decision 0023).
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    # For directories from before decision 0023: Spark goes on with the store that a checkpoint was made with.
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    # The file system has a checksum beside each file already; these would be as many small files again in every batch.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # The checkpoint is in local files. Of its two ways to them, this is the one that starts fewer processes (decision 0016).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A bucket's state is sent to Python again for every Arrow chunk: one chunk should hold a bucket's rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.python.daemon.module": DAEMON,
    "spark.sql.adaptive.enabled": "false",
    # A query with nothing to read asks Kafka whether that is still so: a hundred times a second, if nobody says otherwise.
    "spark.sql.streaming.pollingDelay": "150ms",
    # Every batch is described for Spark's own page, whether anybody looks or not: as briefly as may be.
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.showConsoleProgress": "false",
    # Settings and options of these names are shown without their values; the last is the one that holds what is hidden.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|credential|private|keystore[.]key|redaction[.]string",
}

# A batch's objects are gone with it, and few are left to be moved: the collector with the cheapest steps is the fastest here. Its
# memory grows only where collecting would take a tenth of the time, so what it takes is what the work asks for (decision 0025).
_COLLECTING = ("-XX:+UseParallelGC", "-Xms128m", "-XX:GCTimeRatio=9")

_BARE = "hadoop-bare-naked-local-fs"
_BARE_CLASS = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"


def start_session(
    master: str,
    jars: Sequence[Path],
    *,
    shuffle_partitions: int,
    driver_memory: str = "1g",
    ui: bool = False,
    java_options: Sequence[str] = (),
    stderr: Path | None = None,
    local_dir: Path | None = None,
    extra: Mapping[str, str] | None = None,
    redact: Sequence[str] = (),
) -> SparkSession:
    """Start Spark with the connector jars given by path: nothing is resolved over the network.

    ``shuffle_partitions`` is fixed for the life of a checkpoint. What its Java prints goes to ``stderr``. What ``redact`` names
    is hidden wherever Spark shows a plan.
    """
    # Without this the workers run whichever `python3` is on the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    # Hundreds of threads would each have a corner of the memory to themselves, and never give it back.
    os.environ.setdefault("MALLOC_ARENA_MAX", "4")
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        **(_SETTINGS if local else {k: v for k, v in _SETTINGS.items() if not k.startswith("spark.driver.")}),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": str(ui).lower(),
        "spark.driver.extraJavaOptions": " ".join([*_COLLECTING, *(f'"{each}"' for each in java_options)]),
        # In one process all are on its class path: only what stands there can be in an archive of classes.
        **(_local(jars) if local else {"spark.jars": ",".join(map(str, jars))}),
        **(extra or {}),
    }
    if local_dir is not None:
        settings["spark.local.dir"] = str(local_dir)
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("tidings").setAll(list(settings.items()))
    with interruptible():
        SparkContext(conf=conf, gateway=_launched(conf, stderr))
        session = SparkSession.builder.getOrCreate()
    if redact:
        # Not with the other settings: those stand on the command line of the Java process, for all on the machine to read.
        session.conf.set("spark.sql.redaction.string.regex", redaction_pattern(redact))
    return session


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C means what it meant before, and is never lost.

    PySpark takes it for itself. And an error that is raised while Python tidies up, as it does for each object of the Java
    machine, is only printed: an interrupt that came at such a moment is raised again at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    heard, told = os.pipe()
    for end in (heard, told):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        yield
        signals = os.read(heard, 4096) if select.select([heard], [], [], 0)[0] else b""
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
        os.close(heard)
        os.close(told)
    if signal.SIGINT in signals:
        signal.raise_signal(signal.SIGINT)


def _launched(conf: SparkConf, stderr: Path | None) -> Any:
    """Spark's Java process, without a session yet."""
    if stderr is None:
        return launch_gateway(conf)
    with stderr.open("ab") as file:
        return launch_gateway(conf, {"stderr": file})


def _local(jars: Sequence[Path]) -> dict[str, str]:
    """The jars on the class path, and local files without a process for each.

    Not on a cluster, where a worker would need the jars before it starts.
    """
    found = {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars))}
    if any(jar.name.startswith(_BARE) for jar in jars):
        found["spark.hadoop.fs.file.impl"] = _BARE_CLASS
    return found


def class_path(session: SparkSession) -> str:
    """That of Spark's Java process, every jar by name."""
    return str(session.sparkContext._gateway.jvm.java.lang.System.getProperty("java.class.path"))


def redaction_pattern(secrets: Sequence[str]) -> str:
    r"""A Java regular expression for just these texts.

    >>> print(redaction_pattern(["a.b", r"c\Ed"]))
    \Qa.b\E|\Qc\E\\E\Qd\E
    """
    return "|".join(r"\Q" + secret.replace(r"\E", r"\E\\E\Q") + r"\E" for secret in secrets if secret)


def stop_session(session: SparkSession) -> None:
    """Stop Spark and its Java process: PySpark alone would leave that until Python ends, and then not wait for it."""
    gateway = session.sparkContext._gateway
    with contextlib.suppress(Py4JError, OSError):  # it may be gone already; if it is not, it is ended below
        session.stop()
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
