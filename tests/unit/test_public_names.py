"""`import orderly` is light; which names it has is frozen (tests/frozen)."""

import subprocess
import sys

import pytest

import orderly


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="OrderlyProduser"):
        orderly.OrderlyProduser  # noqa: B018


@pytest.mark.parametrize("heavy", ["asyncio", "click", "rich", "pytest", "structlog", "pooch"])
def test_importing_the_package_imports_nothing_heavy(heavy):
    code = f"import orderly, sys; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_the_distributions():
    from importlib.metadata import version  # noqa: PLC0415

    assert orderly.__version__ == version("rocketmq-orderly")
