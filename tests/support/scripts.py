"""The programs in `.ci`, as modules."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".ci"


def script(name):
    """Load `.ci/NAME.py` anew."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
