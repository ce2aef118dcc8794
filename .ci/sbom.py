"""Write the bill of materials: what an installation of `orderly` brings, as CycloneDX 1.6 JSON.

From pyproject.toml (what is asked for), the lock files (what that is, with hashes) and the list of
the embedded broker's jars. Tools of the project itself are not in it: nobody installs them with
`orderly`. The same checkout gives the same bytes.

    python .ci/sbom.py --output dist/sbom.cdx.json
"""

# ruff: noqa: INP001, T201

from __future__ import annotations

import argparse
import json
import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-spark.lock")
JARS = HERE / "orderly" / "testing" / "jars.txt"
_PIN = re.compile(r"([a-z0-9._-]+)==(\S+?)(?: ; (.+?))? \\")
_HASH = re.compile(r" +--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r" +#(?: via|  ) +([a-z0-9._-]+)(?: \(.*\))?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(slots=True)
class Pin:
    """One locked package.

    Attributes:
        marker: on which systems it is installed; "" for all.
        hashes: SHA-256 of each of its files, in hex.
        parents: names of the packages that ask for it.
    """

    name: str
    version: str
    marker: str = ""
    hashes: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)

    @property
    def purl(self) -> str:
        """The package's URL, which names it here."""
        return f"pkg:pypi/{self.name}@{self.version}"


def main(arguments: list[str] | None = None) -> None:
    """Write it where it is asked for, or print it."""
    parser = argparse.ArgumentParser(description="Write the bill of materials (CycloneDX).")
    parser.add_argument("--output", type=Path, help="the file (default: standard output)")
    output = parser.parse_args(arguments).output
    text = json.dumps(bill(), indent=2, sort_keys=True)
    if output is None:
        print(text)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text + "\n")


def bill() -> dict[str, Any]:
    """Return the document."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    pins = list(read_locks((HERE / lock).read_text() for lock in LOCKS))
    asked_by = reached(asked(project), pins)
    delivered = [pin for pin in pins if pin.name in asked_by]
    jars = [_jar(line) for line in JARS.read_text().splitlines() if not line.startswith("#")]
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _root(project, root)},
        "components": [_component(pin, asked_by[pin.name]) for pin in delivered] + jars,
        "dependencies": list(_edges(root, project, delivered)),
    }
    return body | {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body))}"}


def read_locks(texts: Iterable[str]) -> Iterator[Pin]:
    """Read lock files; a package that several of them have comes once.

    Raises:
        ValueError: one has a line that is none of a lock file.
    """
    pins: dict[tuple[str, str], Pin] = {}
    pin: Pin | None = None
    for line in (line for text in texts for line in text.splitlines()):
        if found := _PIN.fullmatch(line):
            name, version, marker = found.groups(default="")
            pin = pins.setdefault((name, version), Pin(name, version, marker))
        elif pin is not None and (found := _HASH.match(line)):
            pin.hashes.add(found[1])
        elif pin is not None and (found := _VIA.fullmatch(line)):
            pin.parents.add(found[1])
        elif line.strip(" #") not in ("", "via") and not line.startswith("    #   -c "):
            raise ValueError(f"no line of a lock file: {line!r}")
    return iter(pins.values())


def reached(asked: Mapping[str, Iterable[str]], pins: Iterable[Pin]) -> dict[str, list[str]]:
    """Return package -> the extras that bring it, sorted; "" stands for the library alone."""
    children: dict[str, set[str]] = {}
    for pin in pins:
        for parent in pin.parents:
            children.setdefault(parent, set()).add(pin.name)
    asked_by: dict[str, set[str]] = {}
    for extra, names in asked.items():
        todo = list(names)
        while todo:
            name = todo.pop()
            if extra not in asked_by.setdefault(name, set()):
                asked_by[name].add(extra)
                todo += children.get(name, ())
    return {name: sorted(extras) for name, extras in asked_by.items()}


def asked(project: dict[str, Any]) -> dict[str, set[str]]:
    """Return extra -> the packages that pyproject.toml names for it; "" for the library alone."""
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    extras.pop("all")
    ours = project["name"]
    found = {extra: {_name(each) for each in wanted} for extra, wanted in extras.items()}
    for extra, wanted in extras.items():  # an extra that brings another one
        for other in (each for each in wanted if _name(each) == ours):
            found[extra] |= found[other.partition("[")[2].rstrip("]")]
        found[extra].discard(ours)
    return found


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found, requirement
    return found[0].lower()


def _root(project: dict[str, Any], purl: str) -> dict[str, Any]:
    named = {key: project[key] for key in ("name", "version", "description")}
    license_ = {"expression": project["license"]}
    return {"type": "library", "bom-ref": purl, "purl": purl, **named, "licenses": [license_]}


def _component(pin: Pin, extras: list[str]) -> dict[str, Any]:
    told = {"type": "library", "bom-ref": pin.purl, "purl": pin.purl}
    files = [{"alg": "SHA-256", "content": each} for each in sorted(pin.hashes)]
    properties = [{"name": "orderly:extra", "value": extra} for extra in extras if extra]
    if pin.marker:
        properties.append({"name": "orderly:marker", "value": pin.marker})
    licensed = _license(pin)
    return {
        **told,
        "name": pin.name,
        "version": pin.version,
        "scope": "required" if "" in extras else "optional",
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": files}],
        **({"properties": properties} if properties else {}),
        **({"licenses": [{"expression": licensed}]} if licensed else {}),
    }


def _license(pin: Pin) -> str:
    """What the installed package says of itself, as an SPDX expression; "" if it does not."""
    try:
        told = metadata(pin.name)
    except PackageNotFoundError:  # one for another system
        return ""
    return told.get("License-Expression") or "" if told["Version"] == pin.version else ""


def _jar(line: str) -> dict[str, Any]:
    digest, _, path = line.split()
    *group, artifact, version, file = path.split("/")
    classifier = file.removeprefix(f"{artifact}-{version}").removesuffix(".jar").lstrip("-")
    purl = f"pkg:maven/{'.'.join(group)}/{artifact}@{version}"
    purl += f"?classifier={classifier}" if classifier else ""
    return {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "group": ".".join(group),
        "name": artifact,
        "version": version,
        "scope": "optional",
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "properties": [{"name": "orderly:extra", "value": "embedded"}],
    }


def _edges(root: str, project: dict[str, Any], pins: list[Pin]) -> Iterator[dict[str, Any]]:
    wanted = set().union(*asked(project).values())
    yield {"ref": root, "dependsOn": sorted(pin.purl for pin in pins if pin.name in wanted)}
    for parent in pins:
        children = sorted(pin.purl for pin in pins if parent.name in pin.parents)
        yield {"ref": parent.purl, "dependsOn": children}


if __name__ == "__main__":
    main()
