"""docker/compose.yaml is wired as its README says: what it names exists, what it opens is local."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (DOCKER / "exporter" / "Dockerfile").read_text()
KEYS = {  # of a service in the Compose specification, as far as they are used here
    "image", "build", "command", "environment", "ports", "volumes", "depends_on", "healthcheck",
    "network_mode", "restart", "read_only", "cap_drop", "security_opt",
}  # fmt: skip
each_service = pytest.mark.parametrize("name", SERVICES)


def by_default(text):
    """A text with each ${VARIABLE:-default} as it is without the variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_the_five_are_there():
    assert list(SERVICES) == ["namesrv", "broker", "exporter", "prometheus", "grafana"]
    assert set(COMPOSE) == {"name", "x-rocketmq", "services", "volumes"}


@each_service
def test_a_service_has_only_keys_that_compose_knows(name):
    assert set(SERVICES[name]) <= KEYS


@each_service
def test_every_port_is_open_on_loopback_only(name):
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", by_default(port))


@each_service
def test_a_service_in_anothers_network_opens_its_ports_there(name):
    if SERVICES[name].get("network_mode", "").startswith("service:"):
        assert "ports" not in SERVICES[name]


@each_service
def test_health_is_asked(name):
    asked = SERVICES[name].get("healthcheck", {}).get("test")
    assert asked or "HEALTHCHECK" in DOCKERFILE
    assert (asked is None) == (name == "exporter")


@pytest.mark.parametrize(("name", "port"), [("namesrv", 9876), ("broker", 10911)])
def test_a_server_of_rocketmq_is_well_when_it_listens(name, port):
    test = SERVICES[name]["healthcheck"]["test"]
    pattern = re.compile(test[3])
    line = "   0: 00000000000000000000000000000000:{} 00000000000000000000000000000000:0000 {} 0"
    assert pattern.search(line.format(f"{port:04X}", "0A"))  # as /proc/net/tcp6 has it
    assert pattern.search(f"   1: 0100007F:{port:04X} 00000000:0000 0A 0")
    assert not pattern.search(line.format(f"{port:04X}", "01"))  # connected, not listening
    assert not pattern.search(line.format("0016", "0A"))
    assert any(str(port) in published for published in SERVICES["namesrv"]["ports"])


@each_service
def test_what_it_depends_on_and_mounts_exists(name):
    service = SERVICES[name]
    assert set(service.get("depends_on", ())) <= set(SERVICES)
    for mount in service.get("volumes", ()):
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert (DOCKER / source).exists()
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@each_service
def test_images_are_pinned(name):
    image = by_default(SERVICES[name]["image"])
    assert "build" in SERVICES[name] or re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", image)


def test_rocketmqs_image_is_chosen_by_the_one_variable():
    for name in ("namesrv", "broker"):
        assert SERVICES[name]["image"] == "${ORDERLY_ROCKETMQ_IMAGE:-apache/rocketmq:5.5.0}"


def test_prometheus_scrapes_the_exporter_and_reads_the_rules():
    config = yaml.safe_load((DOCKER / "monitoring" / "prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    listens = json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[1])[-1]
    assert job["job_name"] == "orderly"
    assert target == f"namesrv:{listens.rpartition(':')[2]}"
    assert SERVICES["exporter"]["network_mode"] == "service:namesrv"
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["prometheus"]["volumes"])
    assert mounts["./monitoring/rules"] == "/etc/prometheus/rules"
    assert config["rule_files"] == ["rules/*.yaml"]


def test_grafana_is_given_prometheus_and_the_dashboards():
    folder = DOCKER / "monitoring" / "grafana"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards" / "orderly.yaml").read_text())["providers"]
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert mounts["./monitoring/dashboards"] == provider["options"]["path"]
    assert mounts["./monitoring/grafana"] == "/etc/grafana/provisioning"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DOCKER / "monitoring" / "dashboards" / Path(home).name).exists()


# --- the exporter's image


def test_the_exporter_runs_as_somebody_without_rights_on_a_slim_python():
    assert re.search(r"^ARG PYTHON=python:3\.\d+-slim$", DOCKERFILE, re.MULTILINE)
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    user = re.search(r"^USER (\d+)$", last_stage, re.MULTILINE)
    assert int(user[1]) > 0
    assert user.start() < last_stage.index("ENTRYPOINT")


def test_the_image_is_built_from_files_and_extras_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"'\.\[([\w,]+)\]'", DOCKERFILE)[1].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    ignored = (DOCKER / "exporter" / "Dockerfile.dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
