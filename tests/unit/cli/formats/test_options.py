"""Printing: a reader that leaves ends the printing, and not the verdict."""

import os
import subprocess
import sys

SHOWN = """
import sys
from orderly.cli.formats import Answer, Column, Format, show
from orderly.cli.settings import Settings
show(Answer([Column("group")], [["shipping"]]), Format("table", True, False), Settings())
sys.exit(2)
"""


def test_a_reader_that_leaves_does_not_change_the_exit_code():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, b"")
