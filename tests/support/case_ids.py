"""Names of parametrized cases that are the same in every process, as pytest's workers need them."""

import re


def shown(value):
    """The value's repr without addresses of memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
