"""`python -m orderly.cli` is the command `orderly`."""

from orderly.cli import main

main()
