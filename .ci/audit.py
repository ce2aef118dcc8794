"""Look the locked packages up for known vulnerabilities, and say how many could be looked up.

pip-audit says "no known vulnerabilities" also of packages that its service does not know, as behind
a mirror without that service: so the answer here counts. Run by `make lint`.

    exit 0   none known, or nothing could be asked (it says so; with --required that is 1)
    exit 1   some are known
"""

# ruff: noqa: INP001, T201

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-spark.lock")
TIMEOUT = 120.0  # seconds


def main(required: bool) -> int:
    """Ask, and tell."""
    found = asked()
    packages = [] if found is None else found["dependencies"]
    known = [each for each in packages if "skip_reason" not in each]
    for package in known:
        for each in package["vulns"]:
            fixed = ", ".join(each["fix_versions"]) or "none yet"
            print(f"{package['name']} {package['version']}: {each['id']}, mended in: {fixed}")
    if any(package["vulns"] for package in known):
        return 1
    if len(known) < len(packages) or not packages:
        what = f"{len(known)} of {len(packages)} packages were" if packages else "nothing was"
        print(f"audit: NOT CHECKED: {what} looked up: its service knows no more, or is away")
        return int(required)
    print(f"audit: no known vulnerability in {len(packages)} locked packages")
    return 0


def asked() -> dict[str, Any] | None:
    """What pip-audit found; None: it could not ask."""
    locks = [argument for lock in LOCKS for argument in ("-r", str(HERE / lock))]
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", *locks]
    done = None
    try:
        done = subprocess.run(  # noqa: S603 - our own command line
            [*command, "--format", "json", "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        if done is not None:  # perhaps a lock file is broken
            print(done.stderr.strip()[-500:], file=sys.stderr)
        return None
    return answer


if __name__ == "__main__":
    sys.exit(main("--required" in sys.argv[1:]))
