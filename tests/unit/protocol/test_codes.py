"""RocketMQ's releases by their numbers."""

from __future__ import annotations

import pytest

from orderly.protocol.codes import PROTOCOL_VERSION, release_of


@pytest.mark.parametrize(
    ("number", "release"),
    [
        (PROTOCOL_VERSION, "5.5.0"),
        (475, "5.3.1"),
        (413, "5.0.0"),
        (412, "5.0.0"),  # its snapshot
        (411, "4.9.9"),
        (401, "4.9.4"),
        (399, "4.9.3"),
        (233, "4.1.0"),
        (232, "4.1.0"),
        (231, "older than 4.1"),
        (0, "older than 4.1"),
        (611, "5.9.9"),
        (612, "later than 5.9"),
    ],
)
def test_of_a_number(number, release):
    assert release_of(number) == release
