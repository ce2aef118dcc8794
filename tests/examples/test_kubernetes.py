"""examples/kubernetes: manifests that Kubernetes takes, that fit together, and a worker's life."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from itertools import pairwise

import httpx
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from orderly import ClientConfig, ConsumerConfig, Message
from orderly.testing.ports import free_port
from tests.support.programs import EXAMPLES
from tests.support.waiting import eventually, patient_producer

FOLDER = EXAMPLES / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
MANIFESTS = [
    manifest
    for file in KUSTOMIZATION["resources"]
    for manifest in yaml.safe_load_all((FOLDER / file).read_text())
]
OPERATORS = "monitoring.coreos.com/v1"  # kinds that are not Kubernetes' own
NATIVE = [manifest for manifest in MANIFESTS if manifest["apiVersion"] != OPERATORS]
VERSIONS = (all_versions()[0], all_versions()[-1])
SETTINGS = {f"ORDERLY_{f.name.upper()}" for c in (ClientConfig, ConsumerConfig) for f in fields(c)}


def one(kind, name, manifests=MANIFESTS):
    (found,) = [m for m in manifests if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found


def patched(value, patch):
    """A value after Kubernetes' strategic merge patch, as far as it is used here."""
    if isinstance(patch, dict):
        merged = {**value, **{key: patched(value.get(key, {}), new) for key, new in patch.items()}}
        return {key: each for key, each in merged.items() if each is not None}
    if isinstance(patch, list) and isinstance(patch[0], dict):  # of things with names
        named = {each["name"]: each for each in value}
        return list(
            {**named, **{new["name"]: patched(named[new["name"]], new) for new in patch}}.values()
        )
    return patch


def pod(name, manifests=MANIFESTS):
    return one("Deployment", name, manifests)["spec"]["template"]


def container(name, manifests=MANIFESTS):
    (found,) = pod(name, manifests)["spec"]["containers"]
    return found


def environment(made):
    """What a container sees, from the ConfigMap and its own list; values are texts."""
    config = one("ConfigMap", "orderly")["data"]
    return config | {each["name"]: each["value"] for each in made["env"]}


WORKER = pod("shipping")["spec"]
COMPONENT = yaml.safe_load((FOLDER / "loopback" / "kustomization.yaml").read_text())
ON_LOOPBACK = [
    patched(one(patch["kind"], patch["metadata"]["name"]), patch)
    for each in COMPONENT["patches"]
    for patch in [yaml.safe_load((FOLDER / "loopback" / each["path"]).read_text())]
]
each_deployment = pytest.mark.parametrize("name", ["shipping", "orderly-exporter"])


def named(manifest):
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


# --- valid


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [*NATIVE, *ON_LOOPBACK], ids=named)
def test_kubernetes_takes_it(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_found():
    wrong = one("PodDisruptionBudget", "shipping")
    wrong = wrong | {"spec": wrong["spec"] | {"maxUnvailable": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnvailable"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_every_manifest_is_applied():
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


def test_the_alerts_are_the_rendered_ones(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    rendered = import_module("render_alerts").rendered()
    assert (FOLDER / "alerts.yaml").read_text() == rendered, "run render_alerts.py"


# --- fitting


@each_deployment
def test_a_selector_finds_its_pods(name):
    spec = one("Deployment", name)["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_the_budget_and_the_spread_are_of_the_worker():
    labels = pod("shipping")["metadata"]["labels"]
    assert one("PodDisruptionBudget", "shipping")["spec"]["selector"]["matchLabels"] == labels
    (spread,) = WORKER["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


def test_nobody_but_its_node_may_connect_to_a_worker():
    policy = one("NetworkPolicy", "shipping")["spec"]
    assert policy["podSelector"]["matchLabels"] == pod("shipping")["metadata"]["labels"]
    assert policy["policyTypes"] == ["Ingress"]
    assert not policy.get("ingress")


def test_only_prometheus_may_connect_to_the_exporter():
    policy = one("NetworkPolicy", "orderly-exporter")["spec"]
    assert policy["podSelector"]["matchLabels"] == pod("orderly-exporter")["metadata"]["labels"]
    assert policy["policyTypes"] == ["Ingress"]
    (rule,), (port,) = policy["ingress"], container("orderly-exporter")["ports"]
    (who,) = rule["from"]
    assert all(who[each]["matchLabels"] for each in ("namespaceSelector", "podSelector"))
    assert rule["ports"] == [{"port": port["name"]}]


def test_with_the_component_the_worker_is_asked_inside_of_its_pod_only():
    made, before = container("shipping", ON_LOOPBACK), container("shipping")
    loopback = {"PROBE_HOST": "127.0.0.1"}
    assert environment(made) == environment(before) | loopback != environment(before)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = before[probe]["httpGet"]["path"]
        assert made[probe]["exec"]["command"] == ["python", "ask.py", asked]
        assert "httpGet" not in made[probe]
        assert made[probe]["timeoutSeconds"] > 4  # what ask.py takes at most
    assert "# components: [loopback]" in (FOLDER / "kustomization.yaml").read_text()


def test_the_exporter_is_found_and_its_job_is_the_one_that_the_alerts_ask_for():
    service, monitor = one("Service", "orderly-exporter"), one("ServiceMonitor", "orderly")["spec"]
    labels = service["metadata"]["labels"]
    assert (
        service["spec"]["selector"].items() <= pod("orderly-exporter")["metadata"]["labels"].items()
    )
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert f'job="{labels[monitor["jobLabel"]]}"' in (FOLDER / "alerts.yaml").read_text()
    (port,), (endpoint,) = service["spec"]["ports"], monitor["endpoints"]
    assert endpoint["port"] == port["name"]
    assert port["targetPort"] in {each["name"] for each in container("orderly-exporter")["ports"]}


def test_what_the_exporter_tells_shows_no_keys():
    assert "--redact-keys" in container("orderly-exporter")["args"]


@each_deployment
def test_probes_ask_a_port_that_is_there(name):
    made = container(name)
    names = {port["name"] for port in made["ports"]}
    probes = [probe for key, probe in made.items() if key.endswith("Probe")]
    assert {probe["httpGet"]["port"] for probe in probes} == names


@each_deployment
def test_configuration_is_there_or_may_be_left_out(name):
    for source in container(name)["envFrom"]:
        if "configMapRef" in source:
            assert one("ConfigMap", source["configMapRef"]["name"])
        else:
            assert source["secretRef"]["optional"]


def test_every_variable_is_a_setting_of_the_library_or_the_program():
    program = (FOLDER / "app" / "worker.py").read_text()
    for variable in environment(container("shipping")):
        assert variable in SETTINGS or f'os.environ["{variable}"]' in program


def test_a_stop_has_the_time_it_needs():
    config = ConsumerConfig.from_env(environment(container("shipping")))
    times = (0, config.close_timeout, WORKER["terminationGracePeriodSeconds"])
    assert all(shorter + 5 < longer for shorter, longer in pairwise(times))


@each_deployment
def test_nothing_runs_with_more_rights_than_it_needs(name):
    spec, security = pod(name)["spec"], container(name)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_image_has_the_program():
    dockerfile = (FOLDER / "app" / "Dockerfile").read_text()
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE)).split()
    assert {"worker.py", "ask.py"} <= set(copied)
    for name in copied:
        assert (FOLDER / "app" / name).is_file()
    assert container("shipping")["image"] in dockerfile
    assert f"USER {WORKER['securityContext']['runAsUser']}" in dockerfile


# --- a worker's life, as its pod has it


@pytest.fixture(params=[MANIFESTS, ON_LOOPBACK], ids=["by HTTP", "by a command"])
def worker(request, start, orderly_namesrv, orderly_topic):
    made, topic = container("shipping", request.param), orderly_topic(queues=4)
    chosen = {"ORDERLY_NAMESRV": orderly_namesrv, "TOPIC": topic, "GROUP": topic}
    settings = environment(made) | chosen | {"PROBE_PORT": str(free_port())}
    program = start(FOLDER / "app" / "worker.py", **settings)
    program.made, program.settings, program.topic = made, settings, topic
    return program


def passes(worker, probe):
    """Whether a probe of the manifest does, as the kubelet asks."""
    assert worker.process.poll() is None, worker.errors
    asked = worker.made[probe]
    if "exec" in asked:
        _, *command = asked["exec"]["command"]
        there = {"cwd": FOLDER / "app", "env": os.environ | worker.settings}
        done = subprocess.run([sys.executable, *command], capture_output=True, check=False, **there)
        return done.returncode == 0
    try:
        url = f"http://127.0.0.1:{worker.settings['PROBE_PORT']}{asked['httpGet']['path']}"
        return httpx.get(url, timeout=30).is_success
    except httpx.TransportError:
        return False


def test_it_starts_is_ready_works_and_ends_in_time(worker, orderly_namesrv):
    eventually(lambda: passes(worker, "startupProbe"), every=0.05)
    eventually(lambda: passes(worker, "readinessProbe"), every=0.05)
    eventually(lambda: passes(worker, "livenessProbe"), every=0.05)
    with patient_producer(orderly_namesrv) as producer:
        producer.send(Message(worker.topic, b"paid", sharding_key="order-1001"))
    worker.says("handled order-1001")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(WORKER["terminationGracePeriodSeconds"]) == os.EX_OK, worker.errors
    worker.says("closed")
