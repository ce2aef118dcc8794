"""The command `orderly`. Only `main` lives here, so that a missing extra gets a clear line."""

from __future__ import annotations

import sys

from orderly.cli.commands import NOT_MEASURED
from orderly.extras import install


def main(*before: str) -> None:
    """Run `orderly` with the arguments of the process and exit with the command's code.

    Args:
        before: words of the command line that the program's name implies.
    """
    try:
        import click as _  # noqa: F401, PLC0415  the extra may be missing: see below
    except ImportError:
        sys.stderr.write(f"error: the command line needs click and rich: {install('cli')}\n")
        sys.exit(NOT_MEASURED)
    from orderly.cli.root import run  # noqa: PLC0415  imports click
    from orderly.cli.terminal import repair_streams  # noqa: PLC0415  as above

    repair_streams()
    sys.exit(run([*before, *sys.argv[1:]]))
