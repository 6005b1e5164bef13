"""The deployment of docker/, as far as it can be checked without running it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidings.config import load

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"
SETTINGS = ROOT / "docker" / "tidings.toml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as Docker itself reads them; it needs the client, not the engine."""
    if shutil.which("docker") is None:
        pytest.skip("no docker client on this machine: the compose file is not checked")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("the docker client has no compose plugin: the compose file is not checked")
    command = ["docker", "compose", "-f", str(COMPOSE), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


def test_all_parts_are_there(services: dict[str, Any]) -> None:
    assert services.keys() == {"kafka", "spark-master", "spark-worker-1", "spark-worker-2", "tidings"}


def test_every_service_has_a_health_check(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "test" not in service.get("healthcheck", {})] == []


def test_everybody_waits_until_the_others_are_healthy(services: dict[str, Any]) -> None:
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    assert waits["tidings"].keys() == services.keys() - {"tidings"}
    assert {how["condition"] for others in waits.values() for how in others.values()} == {"service_healthy"}


def test_workers_see_the_checkpoints_of_the_driver(services: dict[str, Any]) -> None:
    def data(service: str) -> list[str]:
        return [volume["source"] for volume in services[service]["volumes"] if volume["target"] == "/var/lib/tidings"]

    assert data("tidings") == data("spark-worker-1") == data("spark-worker-2") == ["tidings-data"]


def test_nothing_is_open_beyond_this_machine(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}


def test_the_settings_load_and_the_health_checks_ask_the_right_port() -> None:
    port = load(SETTINGS, {}).service.metrics_port
    for file in (COMPOSE, COMPOSE.with_name("Dockerfile")):
        assert f"http://127.0.0.1:{port}/readyz" in file.read_text(encoding="utf-8"), file.name


def test_the_image_holds_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = [name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]]
    copies = (COMPOSE.with_name("Dockerfile")).read_text(encoding="utf-8").splitlines()
    sent = (COMPOSE.with_name("Dockerfile.dockerignore")).read_text(encoding="utf-8").splitlines()
    for package in packages:
        assert f"COPY {package}/ {package}/" in copies
        assert f"!{package}" in sent


def test_the_image_is_of_this_version(services: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert services["tidings"]["image"] == f"tidings:{project['project']['version']}"
