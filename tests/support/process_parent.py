"""A consumer's process for tests: an idle and a busy worker until stdin ends; prints their ids."""

import sys
import threading
from pathlib import Path

from orderly.ordering.context import ConsumeContext
from orderly.processes.handler import ProcessHandler
from tests.support.messages import QUEUE
from tests.support.process_handlers import act, eventually
from tests.support.process_messages import batch

if __name__ == "__main__":
    path = Path(sys.argv[1])
    handler = ProcessHandler(act, "group")
    idle = handler(batch("my_pid"), ConsumeContext(QUEUE))
    call = (batch("stay", path), ConsumeContext(QUEUE))
    threading.Thread(target=handler, args=call, daemon=True).start()
    eventually(lambda: path.exists() and path.read_text())
    print(idle, path.read_text(), flush=True)
    sys.stdin.read()
