"""docker/compose.yaml, brought up for tests from images that were made without a registry.

Less what would be in the way: ports of this machine, restarts beyond those after a failure, and
Grafana, of which there is no package. What is asked is asked from inside the containers.
"""

import json
import os
import secrets
import subprocess
from pathlib import Path

import yaml

from tests.support.waiting import eventually

DOCKER = Path(__file__).parents[2] / "docker"
IMAGES = {
    "ORDERLY_ROCKETMQ_IMAGE": "orderly/rocketmq-offline:5.5.0",
    "PYTHON_IMAGE": "orderly/python-offline",
    "PROMETHEUS_IMAGE": "orderly/prometheus-offline",
}
NOT_HERE = ("grafana",)


def as_tested():
    """The compose file without what is not tested."""
    found = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    found.pop("name")  # each run has its own; version 1 knows it as an option only
    for service in found["services"].values():
        service.pop("ports", None)
        if "restart" in service:  # or what a killed test run left would come back with the engine
            service["restart"] = "on-failure"
    for name in NOT_HERE:
        del found["services"][name]
    return found


def command():
    """Compose as Docker's plugin, or else its first version, which Debian has."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


class Compose:
    """One project, from a copy of the file in `folder`."""

    def __init__(self, folder):
        file = folder / "compose.yaml"
        file.write_text(yaml.safe_dump(as_tested()))
        project = f"orderly-test-{secrets.token_hex(4)}"
        self._command = [*command(), "--project-name", project, "--project-directory", str(DOCKER)]
        self._command += ["--file", str(file)]
        self._containers = {}

    def call(self, *args, within=240):
        """Run a command of Compose; returns what it printed and how it ended."""
        return subprocess.run(
            [*self._command, *args],
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | IMAGES,
        )

    def do(self, *args):
        """Run a command that has to work; returns its standard output."""
        done = self.call(*args)
        assert done.returncode == 0, f"{args}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def run_in(self, service, *args):
        """Run a program in the service's container."""
        return subprocess.run(
            ["docker", "exec", self.container(service), *args],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def orderly(self, *args):
        """Run `orderly` in the exporter's container."""
        return self.run_in("exporter", "orderly", *args)

    def state(self, service):
        """What the engine says about the service's container."""
        asked = ["docker", "inspect", self.container(service)]
        told = subprocess.run(asked, capture_output=True, check=True, timeout=60)
        return json.loads(told.stdout)[0]

    def container(self, service):
        """The id of the service's container."""
        if service not in self._containers:  # Compose takes a second to tell
            self._containers[service] = self.do("ps", "--quiet", service).strip()
        return self._containers[service]

    def wait_until_healthy(self, service):
        def state():
            return self.state(service)["State"]

        try:
            eventually(lambda: state()["Health"]["Status"] == "healthy", within=180, every=1)
        except AssertionError as error:
            log = self.call("logs", "--tail", "40", service).stdout
            raise AssertionError(f"{service} is not well: {state()}\n{log}") from error

    def prometheus(self, path):
        """The data of an answer of Prometheus' API; None while there is none."""
        asked = f"http://127.0.0.1:9090/api/v1/{path}"
        done = self.run_in("prometheus", "wget", "-qO-", asked)
        return json.loads(done.stdout)["data"] if done.returncode == 0 else None

    def series(self, query):
        """The values of an instant query, by the labels but those of the target."""
        found = self.prometheus(f"query?query={query}")["result"]
        return {
            tuple(v for k, v in sorted(one["metric"].items()) if k not in TARGET): one["value"][1]
            for one in found
        }


TARGET = {"__name__", "cluster", "job", "instance"}
