"""Where the library's events go when the command runs: stderr, one line each, ISO 8601 times.

The library's events reach the standard library's loggers as key=value text with every value
escaped (see `orderly.log`), so nothing a message contains can act on the terminal.
"""

from __future__ import annotations

import logging
import sys

from orderly.monitoring.texts import iso_time

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _StderrHandler(logging.Handler):
    """Writes to the stderr of the moment: a live display redirects it while it draws."""

    def emit(self, record: logging.LogRecord) -> None:
        at = iso_time(record.created)
        level = record.levelname.lower()
        sys.stderr.write(f"{at} {level} {record.name} {self.format(record)}\n")


def configure(verbose: int) -> None:
    """Show events of level warning and above; -v also info, -vv also debug."""
    logger = logging.getLogger("orderly")
    logger.handlers = [_StderrHandler()]
    logger.setLevel(LEVELS[min(verbose, len(LEVELS) - 1)])
    logger.propagate = False


def configure_program(verbose: int) -> None:
    """For a program of the user's: events of level info and above, -v all, go where it says.

    Called before the program is imported; `configure_default` afterwards.
    """
    logger = logging.getLogger("orderly")
    logger.handlers = []
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = True


def configure_default(verbose: int) -> None:
    """Show what a program logs that configures no logging of its own, as its events."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_StderrHandler())
        root.setLevel(logging.DEBUG if verbose else logging.INFO)
