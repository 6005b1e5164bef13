"""The daemon that Spark starts its Python workers from, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from streaming.spark import daemon

_PROGRAM = """
import gc, importlib, json, sys
from streaming.spark import daemon
daemon.prepare()
importlib.invalidate_caches()  # as every task does
import pyspark
print(json.dumps({
    "archives": [entry for entry in (*sys.path, *sys.path_importer_cache) if entry.endswith(daemon.ARCHIVES)],
    "pyspark": pyspark.__file__,
    "ready": [name in sys.modules for name in ("pandas", "pyarrow", "pyspark.worker", "streaming.batch.engine")],
    "frozen": gc.get_freeze_count(),
    "searched": len(gc.get_objects()),
    "networkx": "networkx" in sys.modules,
}))
"""


def test_no_archive_is_looked_at_and_all_is_imported_before_a_worker_is_forked():
    """Spark puts its archives in front of everything else on the path."""
    home = Path(pyspark.__file__).parent
    archives = [*(home / "python" / "lib").glob("*.zip"), *(home / "jars").glob("spark-core_*.jar")]
    assert len(archives) == 3
    path = os.pathsep.join([*map(str, archives), *sys.path])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=env, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["archives"] == []
    assert Path(said["pyspark"]) == home / "__init__.py"
    assert all(said["ready"])
    assert said["frozen"] > 50_000
    assert said["searched"] < said["frozen"] / 20, "what was imported is kept out of the search"
    assert not said["networkx"], "no task needs it"


def test_garbage_is_searched_for_now_and_then(monkeypatch: pytest.MonkeyPatch):
    searches = []
    now_s = [100.0]
    monkeypatch.setattr(daemon.gc, "collect", lambda: searches.append(now_s[0]))
    monkeypatch.setattr(daemon.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(daemon.Leisurely, "_last_s", 0.0)
    for _ in range(25):
        daemon.Leisurely.collect()
        now_s[0] += 1
    assert searches == [100.0, 110.0, 120.0]
