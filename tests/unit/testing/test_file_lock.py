"""One process at a time."""

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing.file_lock import hold


def test_the_second_is_refused_until_the_first_lets_go(tmp_path):
    path = tmp_path / "lock"
    with hold(path, "the place"), pytest.raises(EmbeddedBrokerError, match="the place is in use"):
        hold(path, "the place")
    hold(path, "the place").close()
