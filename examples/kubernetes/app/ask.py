"""Ask this pod's own probe: `python ask.py /live` exits with 0 if it is healthy.

For exec probes (`loopback/`). It has 4 s, less than `timeoutSeconds` of the probes.
"""

from __future__ import annotations

import http.client
import os
import sys


def main(path: str) -> int:
    """Print the answer; a failed connection is exit code 1, too."""
    # Not urllib: it would ask a proxy if the environment names one.
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PROBE_PORT"]), timeout=4)
    connection.request("GET", path)
    answer = connection.getresponse()
    print(answer.read().decode())
    return int(answer.status != http.client.OK)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
