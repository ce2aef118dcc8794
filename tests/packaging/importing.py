"""Tells, in the Python that runs it, which modules of `orderly` can be imported and which not.

Prints a JSON object: module -> null, or the error's text. Run by tests/packaging/test_installed.py
in environments that have no test tools.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path


def modules():
    root = Path(importlib.util.find_spec("orderly").origin).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tried(name):
    try:
        importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return None


if __name__ == "__main__":
    json.dump({name: tried(name) for name in modules()}, sys.stdout)
