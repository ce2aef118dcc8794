"""librocketmq crashes, or hangs, if the process ends before it was shut down: so it always is."""

import os
import subprocess
import sys

import pytest

FORGETFUL = """
import sys
from orderly import Ack, Message
from orderly.native import Library, NativeConsumer, NativeOrderlyProducer, listener

path, namesrv = sys.argv[1:]
library = Library(path)
producer = NativeOrderlyProducer(namesrv=namesrv, library=library).start()
made = listener(lambda message, attempt: Ack(), library=library)
consumer = NativeConsumer("forgetful", made, namesrv=namesrv, library=library)
consumer.subscribe("orders").start()
print("ends")
"""
CARELESS = """
import sys
from orderly.native import Library

library = Library(sys.argv[1])
handle = library["CreateProducer"](b"careless")
library.do("SetProducerNameServerAddress", handle, b"127.0.0.1:1")
library.do("StartProducer", handle)
"""
FORKING = """
import os, sys
from orderly.errors import LifecycleError
from orderly import Message
from orderly.native import Library, NativeOrderlyProducer

with NativeOrderlyProducer(namesrv="127.0.0.1:1", library=Library(sys.argv[1])) as producer:
    child = os.fork()
    if not child:
        try:
            producer.send(Message("orders", b"x"))
        except LifecycleError as error:
            producer.close()
            os._exit(7 if "forked" in str(error) else 8)
    _, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_what_nobody_closed_is_shut_down(world):
    done = run(FORGETFUL, world.library.path, world.namesrv)
    assert (done.returncode, done.stdout.strip()) == (0, "ends"), done.stderr


def test_the_stub_would_show_it(stub):
    done = run(CARELESS, stub.library.path)
    assert done.returncode < 0
    assert "exit while 1 are running" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_refused_and_leaves_the_parents_alone(stub):
    assert run(FORKING, stub.library.path).returncode == 7
