"""Print what requirements.lock has for some extras, as a file for `pip install --require-hashes`.

With whatever these ask for in turn, and the library's own dependencies. `build` stands for what
builds the library, and the source distribution of the demo's flights. docker/Dockerfile uses it.

    python .ci/locked.py cli,monitoring
"""

# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import tomllib

from sbom import HERE, Pin, asked, reached, read_locks

BUILD = {"hatchling", "setuptools"}


def main(extras: str) -> None:
    """Print it.

    Raises:
        SystemExit: there is no such extra.
    """
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    known = asked(project) | {"build": BUILD}
    wanted = {"", *extras.split(",")}
    if unknown := wanted - known.keys():
        sys.exit(
            f"no extra {', '.join(sorted(unknown))}; there are {', '.join(filter(None, known))}"
        )
    pins = list(read_locks([(HERE / "requirements.lock").read_text()]))
    tools = read_locks([(HERE / "requirements-dev.lock").read_text()])
    pins += [pin for pin in tools if pin.name in BUILD - {each.name for each in pins}]
    asked_by = reached(known, pins)
    print("\n".join(line(pin) for pin in pins if wanted & {*asked_by.get(pin.name, ())}))


def line(pin: Pin) -> str:
    """One requirement, with its marker and hashes."""
    marker = f" ; {pin.marker}" if pin.marker else ""
    hashes = "".join(f" --hash=sha256:{each}" for each in sorted(pin.hashes))
    return f"{pin.name}=={pin.version}{marker}{hashes}"


if __name__ == "__main__":
    main(*sys.argv[1:])
