"""Lay out RocketMQ as the public image has it: lib, conf and the three start scripts.

Usage: python docker/offline/stage.py FOLDER
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from orderly.testing.jars import fetch_jars, listed_jars
from orderly.testing.settings import BROKER, LOGBACK, NAME_SERVER, PROXY, java_flags

# $JAVA_OPT_EXT comes last and wins, as in the public image.
SCRIPT = """\
#!/bin/sh
exec java {flags} -Dorderly.log="$HOME/logs/rocketmqlogs/{name}.log" $JAVA_OPT_EXT \\
    -cp "$ROCKETMQ_HOME/conf:$ROCKETMQ_HOME/lib/*" {main} "$@"
"""


def main() -> None:
    """Fill the folder."""
    home = Path(sys.argv[1])
    for name in ("bin", "conf", "lib"):
        (home / name).mkdir(parents=True)
    for jar in fetch_jars(jars=listed_jars(proxy=True)):
        shutil.copy(jar, home / "lib")
    (home / "conf" / "rmq.logback.xml").write_text(LOGBACK)
    for command, name, server in (
        ("mqnamesrv", "namesrv", NAME_SERVER),
        ("mqbroker", "broker", BROKER),
        ("mqproxy", "proxy", PROXY),
    ):
        script = home / "bin" / command
        flags = shlex.join(java_flags(NAME_SERVER if server == NAME_SERVER else BROKER))
        script.write_text(SCRIPT.format(flags=flags, name=name, main=server))
        script.chmod(0o755)


if __name__ == "__main__":
    main()
