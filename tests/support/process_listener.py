"""A decorated listener that worker processes import by its name."""

import os
from pathlib import Path

import orderly
from orderly import Ack


@orderly.listener(decode="json", fatal=(ValueError,), on_poison="dead_letter", suspend=0.05)
def ship(order, attempt):
    """Note the call; a body may say that the message is bad, or kills its first process."""
    with Path(order["path"]).open("a") as diary:
        diary.write(f"{os.getpid()} {attempt.key} {order['number']}\n")
    if order.get("bad"):
        raise ValueError(f"no such account {order['number']}")
    if order.get("kills") and attempt.number == 1:
        os._exit(1)
    return Ack()
