"""`orderly backlog`, also by its own name `orderly-backlog`.

Measuring is `orderly.monitoring.collecting`, judging `orderly.monitoring.backlog`; here are the
options, the texts and the exit codes.
"""

from __future__ import annotations

from orderly.cli import main as run_orderly


def main() -> None:
    """Run `orderly backlog` with the arguments of the process."""
    run_orderly("backlog")
