"""Ask this pod's own probe, as `python ask.py /live`: exit code 0 if it is well.

For exec probes (`loopback/`). It has 4 s, less than `timeoutSeconds` of the probes.
"""

from __future__ import annotations

import http.client
import os
import sys


def main(path: str) -> int:
    """Print what it says; a connection that fails is exit code 1, too."""
    # Not urllib: that would ask a proxy, where the environment names one.
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PROBE_PORT"]), timeout=4)
    connection.request("GET", path)
    answer = connection.getresponse()
    print(answer.read().decode())
    return int(answer.status != http.client.OK)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
