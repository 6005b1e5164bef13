"""Where Spark writes what it has to say: into the directory's `logs`, not onto the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from service.directory.directory import replace_text

_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d{{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}}] %p %m (%c{{1}})%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def write_log_config(logs: Path, level: str = "WARN") -> Path:
    """Write the file that tells Spark's Java where and what to log."""
    path = logs / "spark-log4j2.properties"
    replace_text(path, _LOGGING.format(folder=logs, level=level))
    return path


@contextlib.contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Let processes started in this block write their standard error to a file: Java prints warnings nobody can act on."""
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
