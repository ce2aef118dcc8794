"""Messages whose bodies tell tests.support.process_handlers what to do."""

from dataclasses import replace

from tests.support.messages import message


def batch(*bodies):
    """Messages at offsets 17, 18, ... with these bodies."""
    return tuple(
        replace(message(17 + n, "k"), body=str(body).encode()) for n, body in enumerate(bodies)
    )
