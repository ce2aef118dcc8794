"""docker/compose.yaml is wired as its README says: what it names exists, what it opens is local."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
PORTS = {
    "namesrv-a": 9876, "namesrv-b": 9877, "broker-a": 10911, "broker-b": 10921,
    "broker-a-slave": 10931, "proxy": 8081,
}  # fmt: skip
SHARED = "service:network"
NAMESRV = "127.0.0.1:9876;127.0.0.1:9877"
KEYS = {  # of a service in the Compose specification, as far as they are used here
    "image", "build", "command", "environment", "ports", "volumes", "depends_on", "healthcheck",
    "network_mode", "restart", "read_only", "cap_drop", "security_opt", "init",
}  # fmt: skip
each_service = pytest.mark.parametrize("name", SERVICES)


def by_default(text):
    """A text with each ${VARIABLE:-default} as it is without the variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_all_are_there():
    assert list(SERVICES) == ["network", *PORTS, "exporter", "demo", "prometheus", "grafana"]
    own = {name for name in COMPOSE if not name.startswith("x-")}
    assert own == {"name", "services", "volumes"}


@each_service
def test_a_service_has_only_keys_that_compose_knows(name):
    assert set(SERVICES[name]) <= KEYS


@each_service
def test_every_port_is_open_on_loopback_only(name):
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", by_default(port))


def test_all_that_know_brokers_by_their_addresses_share_one_network():
    sharing = {name for name, service in SERVICES.items() if "network_mode" in service}
    assert sharing == {*PORTS, "exporter", "demo"}
    assert {SERVICES[name]["network_mode"] for name in sharing} == {SHARED}
    assert not any("ports" in SERVICES[name] for name in sharing)
    ports = [*PORTS.values(), 9788]  # and the exporter's, to whose page alerts link
    assert SERVICES["network"]["ports"] == [f"127.0.0.1:{n}:{n}" for n in ports]


@each_service
def test_health_is_asked(name):
    asked = SERVICES[name].get("healthcheck")
    if name == "demo":
        assert asked == {"disable": True}  # it ends
    elif name == "exporter":
        assert asked is None
        assert "HEALTHCHECK" in DOCKERFILE
    else:
        assert (name == "network") == (asked is None)


@pytest.mark.parametrize(("name", "port"), PORTS.items())
def test_a_server_of_rocketmq_is_well_when_it_listens(name, port):
    test = SERVICES[name]["healthcheck"]["test"]
    pattern = re.compile(test[3])
    line = "   0: 00000000000000000000000000000000:{} 00000000000000000000000000000000:0000 {} 0"
    assert pattern.search(line.format(f"{port:04X}", "0A"))  # as /proc/net/tcp6 has it
    assert pattern.search(f"   1: 0100007F:{port:04X} 00000000:0000 0A 0")
    assert not pattern.search(line.format(f"{port:04X}", "01"))  # connected, not listening
    assert not pattern.search(line.format("0016", "0A"))


@pytest.mark.parametrize("name", ["broker-a", "broker-b", "broker-a-slave"])
def test_a_broker_announces_what_is_right_inside_and_outside(name):
    text = (DOCKER / "rocketmq" / f"{name}.conf").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert int(settings["listenPort"]) == PORTS[name]
    assert settings["brokerIP1"] == settings["brokerIP2"] == "127.0.0.1"
    assert settings["namesrvAddr"] == NAMESRV
    assert settings["brokerName"] == name.removesuffix("-slave")
    is_slave = name.endswith("-slave")
    assert (settings["brokerId"] == "1", settings["brokerRole"] == "SLAVE") == (is_slave,) * 2


def test_everybody_is_told_of_both_name_servers():
    proxy = json.loads((DOCKER / "rocketmq" / "proxy.json").read_text())
    assert proxy["namesrvAddr"] == NAMESRV
    assert proxy["grpcServerPort"] == PORTS["proxy"]
    for name in ("exporter", "demo"):
        assert SERVICES[name]["environment"]["ORDERLY_NAMESRV"] == NAMESRV
    second = (DOCKER / "rocketmq" / "namesrv-b.conf").read_text()
    assert second == f"listenPort={PORTS['namesrv-b']}\n"


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
    for name in ("network", *PORTS):
        assert SERVICES[name]["image"] == "${ORDERLY_ROCKETMQ_IMAGE:-apache/rocketmq:5.5.0}"


def test_prometheus_scrapes_the_exporter_and_reads_the_rules():
    config = yaml.safe_load((DOCKER / "monitoring" / "prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    listens = json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[1])[-1]
    assert job["job_name"] == "orderly"
    assert target == f"network:{listens.rpartition(':')[2]}"
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


def test_grafana_asks_for_a_password_that_nobody_else_knows():
    told = SERVICES["grafana"]["environment"]
    assert re.fullmatch(r"\$\{GRAFANA_PASSWORD:\?[^}]+\}", told["GF_SECURITY_ADMIN_PASSWORD"])
    assert told["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    assert told["GF_USERS_ALLOW_SIGN_UP"] == "false"
    assert not {name for name in told if name.startswith("GF_AUTH_")} - {
        "GF_AUTH_ANONYMOUS_ENABLED"
    }
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().split()


# --- orderly's image


def test_orderly_runs_as_somebody_without_rights_on_a_slim_python():
    assert re.search(r"^ARG PYTHON=python:3\.\d+-slim$", DOCKERFILE, re.MULTILINE)
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    user = re.search(r"^USER (\d+)$", last_stage, re.MULTILINE)
    assert int(user[1]) > 0
    assert user.start() < last_stage.index("ENTRYPOINT")
    for name in ("exporter", "demo"):
        assert SERVICES[name]["read_only"]
        assert SERVICES[name]["cap_drop"] == ["ALL"]


def test_the_image_is_built_from_files_extras_and_flights_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"^ARG EXTRAS=([\w,]+)$", DOCKERFILE, re.MULTILINE)[1].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    (flights,) = project["optional-dependencies"]["demo"]
    assert f"/^{flights.partition('=')[0]}==/" in DOCKERFILE
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_whatever_the_package_is_built_of_is_copied():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    needed = set(wheel["targets"]["wheel"]["packages"])
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    assert needed <= set(" ".join(copied).split())


def test_nothing_gets_into_the_image_but_by_its_hash():
    asked = re.findall(r"/pip (?:install|wheel|download) [^&\\\n]*", DOCKERFILE)
    assert len(asked) == DOCKERFILE.count("/pip ") - DOCKERFILE.count("/pip uninstall") > 3
    for command in asked:
        assert "--require-hashes" in command or "--no-index" in command
        assert "--require-hashes" not in command or command.split()[-1].endswith(".txt")


def locked(extras):
    """What `.ci/locked.py` prints, as the Dockerfile calls it."""
    command = [sys.executable, str(ROOT / ".ci" / "locked.py"), extras]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_what_is_installed_is_in_the_lock_file_with_these_hashes():
    lock = (ROOT / "requirements.lock").read_text()
    lines = locked("cli,build").stdout.splitlines()
    assert {"click", "rich", "markdown-it-py", "hatchling", "setuptools"} <= {
        line.partition("==")[0] for line in lines
    }
    assert not any(line.startswith(("pandas==", "pytest==")) for line in lines)
    for line in lines:
        pin, *hashes = line.split(" --hash=")
        where = lock if f"{pin} " in lock else (ROOT / "requirements-dev.lock").read_text()
        block = where[where.index(f"{pin} \\\n") :].partition("    #")[0]
        assert hashes == sorted(re.findall(r"sha256:\w{64}", block))


def test_an_extra_that_is_not_there_ends_the_build():
    done = locked("cli,monitorin")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no extra monitorin; there are cli, " in done.stderr


@pytest.mark.parametrize("name", ["PYTHON_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"])
def test_an_image_can_be_named_by_its_digest(name):
    assert re.search(rf"\$\{{{name}:-", (DOCKER / "compose.yaml").read_text())
