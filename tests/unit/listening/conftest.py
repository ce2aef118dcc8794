"""What the listener's tests share."""

import pytest
import structlog

from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE


@pytest.fixture
def context():
    return ConsumeContext(QUEUE, "shipping", key="k", max_suspend=3600)


@pytest.fixture
def events():
    with structlog.testing.capture_logs() as captured:
        yield captured
