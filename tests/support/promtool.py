"""promtool, of Debian's package `prometheus`: it checks rules, and runs them over histories."""

import shutil
import subprocess


def promtool(*args, cwd):
    """Run it in a folder; returns its whole output, and fails the test if it fails."""
    program = shutil.which("promtool")
    assert program is not None, "install it: apt-get install prometheus"
    done = subprocess.run(
        [program, *args],
        cwd=cwd,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # a hang-guard
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
