"""Archives of classes: made once, used from then on, and nothing but time depends on them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from service.kafka.class_archive import ArchiveMaker, ClassArchive, class_names
from service.kafka.embedded import EmbeddedKafka
from service.kafka.jars import cache_directory, kafka_jars
from service.kafka.java import Java
from testing.service import RunningService, wait_for

LOADED = """\
java.lang.Object source: jrt:/java.base
java.util.List source: shared objects file
kafka.Kafka source: file:/jars/kafka.jar
kafka.Kafka$$Lambda$14/0x0000000800c03000 source: kafka.Kafka
java.lang.invoke.LambdaForm$MH/0x00 source: __JVM_LookupDefineClass__
org.apache.spark.GeneratedClass$Iterator source: file:/jars/spark.jar
[warning] something else
"""
GOOD = """
for word in "$@"; do
  case "$word" in
    -XX:SharedArchiveFile=*) file="${word#*=}" ;;
    -XX:SharedClassListFile=*) list="${word#*=}" ;;
  esac
done
cp "$list" "$file"
"""

MakeJava = Callable[[str], Java]


@pytest.fixture
def java_that(tmp_path: Path) -> MakeJava:
    def make(does: str) -> Java:
        path = tmp_path / "java"
        path.write_text(f"#!/bin/sh\n{does}")
        path.chmod(0o755)
        return Java(path, 17, "a java")

    return make


def noted(archive: ClassArchive, text: str = LOADED) -> None:
    """As a program does that was started without an archive."""
    [option] = [each for each in archive.options() if "file=" in each]
    Path(option.split("file=")[1].split(":")[0]).write_text(text)


def make(archive: ClassArchive) -> bool:
    return archive.make("a.jar:b.jar", threading.Event())


def test_only_what_comes_from_files_is_listed():
    assert list(class_names(LOADED.splitlines())) == ["java/lang/Object", "java/util/List", "kafka/Kafka"]


def test_without_an_archive_classes_are_noted_and_with_one_it_is_used(tmp_path: Path, java_that: MakeJava):
    archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path / "cache")
    assert not archive.is_wanted
    noted(archive)
    assert archive.is_wanted
    assert make(archive)
    assert archive.path.read_text().split() == ["java/lang/Object", "java/util/List", "kafka/Kafka"]
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.options()
    assert list(archive.path.parent.iterdir()) == [archive.path]


def test_it_holds_for_one_java_and_its_jars(tmp_path: Path, java_that: MakeJava):
    jar = tmp_path / "a.jar"
    jar.touch()
    java = java_that(GOOD)
    first = ClassArchive.of("kafka", java, [jar], tmp_path)
    assert ClassArchive.of("kafka", java, [jar], tmp_path) == first
    assert ClassArchive.of("kafka", Java(java.path, 21, "another java"), [jar], tmp_path).path != first.path
    os.utime(jar, ns=(0, 0))
    assert ClassArchive.of("kafka", java, [jar], tmp_path).path != first.path


def test_a_java_that_cannot_make_one_leaves_nothing_behind(tmp_path: Path, java_that: MakeJava):
    archive = ClassArchive.of("kafka", java_that("exit 1"), [], tmp_path / "cache")
    noted(archive)
    assert not make(archive)
    assert list(archive.path.parent.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_slower_start_and_no_more(tmp_path: Path, java_that: MakeJava):
    (tmp_path / "cache").touch()
    archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path / "cache")
    assert archive.options() == []
    assert not archive.is_wanted


def test_java_is_not_given_a_path_that_it_would_take_apart(tmp_path: Path, java_that: MakeJava):
    for name in ("a:b", "a,b", "a b"):
        archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path / name)
        assert archive.options() == []
        archive.path.parent.mkdir(parents=True)
        archive.path.touch()
        assert archive.options() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_there_and_cannot_be_written_is_left_alone(tmp_path: Path, java_that: MakeJava):
    (tmp_path / "classes").mkdir(mode=0o500)
    assert ClassArchive.of("kafka", java_that(GOOD), [], tmp_path).options() == []


def test_the_youngest_three_are_kept(tmp_path: Path, java_that: MakeJava):
    folder = tmp_path / "classes"
    folder.mkdir()
    for number in range(4):
        (folder / f"kafka-{number}.jsa").touch()
        os.utime(folder / f"kafka-{number}.jsa", (number, number))
    (folder / "spark-0.jsa").touch()
    archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path)
    noted(archive)
    assert make(archive)
    assert {path.name for path in folder.iterdir()} == {"kafka-2.jsa", "kafka-3.jsa", archive.path.name, "spark-0.jsa"}


def test_a_busy_machine_is_waited_for(tmp_path: Path, java_that: MakeJava, monkeypatch: pytest.MonkeyPatch):
    archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path / "cache")
    noted(archive)
    used = iter([0.0, 90.0, 80.0, 20.0])
    monkeypatch.setattr(psutil, "cpu_percent", lambda: next(used))
    maker = ArchiveMaker([(archive, "a.jar")], quiet_s=0.01)
    maker.start()
    maker.join(10)
    assert archive.path.exists()
    assert list(used) == []


def test_what_was_noted_is_gone_with_a_service_that_never_had_room(
    tmp_path: Path, java_that: MakeJava, monkeypatch: pytest.MonkeyPatch
):
    archive = ClassArchive.of("kafka", java_that(GOOD), [], tmp_path / "cache")
    noted(archive)
    monkeypatch.setattr(psutil, "cpu_percent", lambda: 90.0)
    maker = ArchiveMaker([(archive, "a.jar")], quiet_s=0.01)
    maker.start()
    maker.stop()
    assert list(archive.path.parent.iterdir()) == []


def test_a_service_that_stops_does_not_wait_for_it(tmp_path: Path, java_that: MakeJava, monkeypatch: pytest.MonkeyPatch):
    archive = ClassArchive.of("kafka", java_that("exec sleep 60"), [], tmp_path / "cache")
    noted(archive)
    maker = ArchiveMaker([(archive, "a.jar")], quiet_s=0.1)
    monkeypatch.setattr(psutil, "cpu_percent", lambda: 10.0)
    maker.start()
    wait_for("Java to begin", lambda: list(archive.path.parent.glob("*.classes")), 10)
    began_s = time.monotonic()
    maker.stop()
    assert time.monotonic() - began_s < 5
    assert not maker.is_alive()
    assert list(archive.path.parent.iterdir()) == []


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the jars of the usual one and no archives."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_directory() / "jars")
    monkeypatch.setenv("TIDINGS_CACHE", str(cache))
    return cache


def test_java_leaves_a_damaged_archive_aside_without_a_word(java: Java, own_cache: Path, tmp_path: Path):
    archive = ClassArchive.of("kafka", java, kafka_jars(), own_cache)
    archive.path.parent.mkdir()
    archive.path.write_bytes(b"no archive at all" * 1000)
    with EmbeddedKafka.start(tmp_path / "kafka", java) as broker:
        assert str(archive.path) in " ".join(psutil.Process(broker.pid).cmdline())
    assert (tmp_path / "kafka" / "kafka.out").read_text() == ""


@pytest.mark.live
@pytest.mark.slow
def test_a_service_makes_what_its_next_start_uses(own_cache: Path, tmp_path: Path):
    with RunningService.start(tmp_path / "dir"):
        wait_for("both archives", lambda: len(list(own_cache.glob("classes/*.jsa"))) == 2, 240)
    before = {path: path.stat().st_mtime_ns for path in own_cache.glob("classes/*")}
    assert len(before) == 2, "what was noted is gone"
    with RunningService.start(tmp_path / "dir") as again:
        javas = [child.pid for child in psutil.Process(again.process.pid).children() if child.name() == "java"]
        mapped = {line.split()[-1] for pid in javas for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}
        assert {str(path) for path in before} <= mapped
    assert {path: path.stat().st_mtime_ns for path in own_cache.glob("classes/*")} == before
    assert (tmp_path / "dir.stdout").read_text().count("\n") == 1, "Java says nothing of it"
