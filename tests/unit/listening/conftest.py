"""What the listener's tests share."""

import pytest

from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE


@pytest.fixture
def context():
    return ConsumeContext(QUEUE, "shipping", key="k", max_suspend=3600)
