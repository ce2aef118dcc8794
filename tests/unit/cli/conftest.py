"""No test of the command line reads the settings of who runs it."""

import pytest

from tests.unit.cli.golden.transcript import nobodys_settings


@pytest.fixture(autouse=True)
def no_settings_of_mine():
    with nobodys_settings():
        yield
