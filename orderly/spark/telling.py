"""Losses, told: as an error, or as a warning for each queue."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.log import get_logger
from orderly.spark.offsets.losses import Loss, data_lost

_log = get_logger("orderly.spark")


def settle(losses: Sequence[Loss], *, fail: bool) -> None:
    """Raise, or warn and go on.

    Args:
        losses: what can't be read; may be empty.
        fail: the option failOnDataLoss.

    Raises:
        DataLost: there are losses, and `fail`.
    """
    if losses and fail:
        raise data_lost(losses)
    for loss in losses:
        tell(loss)


def tell(loss: Loss) -> None:
    """Warn of one loss."""
    _log.warning(
        "spark.data_lost",
        topic=loss.queue.topic,
        broker=loss.queue.broker_name,
        queue_id=loss.queue.queue_id,
        start=loss.start,
        end=loss.end,
        messages=loss.messages,
        why=loss.why,
    )
