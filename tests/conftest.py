"""What all tests of the project share."""

import logging

import pytest
import structlog
from hypothesis import settings

# Shared, noisy machines: an example that takes long once is no failure.
settings.register_profile("orderly", deadline=None)
settings.load_profile("orderly")


def pytest_addoption(parser):
    parser.addoption(
        "--members",
        default="2",
        help="with how many members the behaviour tests run: 2 (default), or several as 1,2,3",
    )


@pytest.fixture(autouse=True)
def _library_defaults():
    """Each test starts with logging as a program has it that configures nothing."""
    logger = logging.getLogger("orderly")
    before = logger.level, logger.propagate, logger.handlers[:]
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    logger.setLevel(before[0])
    logger.propagate, logger.handlers[:] = before[1:]
