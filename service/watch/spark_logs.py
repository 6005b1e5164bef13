"""Where Spark writes what it has to say: into the directory's `logs`, not onto the terminal."""

from __future__ import annotations

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


def logging_option(logs: Path, level: str = "WARN") -> str:
    """Write the file that tells Spark's Java where and what to log; returns the option that names it."""
    path = logs / "spark-log4j2.properties"
    replace_text(path, _LOGGING.format(folder=logs, level=level))
    return f"-Dlog4j2.configurationFile={path.resolve().as_uri()}"
