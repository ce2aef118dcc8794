"""A client that was made before a fork: refused in the child, undisturbed in the parent.

The fork happens in a process of its own: a fork of pytest would copy its threads' locks, too.
"""

from __future__ import annotations

import subprocess
import sys

SOON = 120.0  # a hang is what is looked for

PARENT = """
import os
import socket
import sys
import threading
import warnings

from orderly.clock import AwakeClock
from orderly.errors import LifecycleError
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to, request
from orderly.client.pool import Connections

warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: the very case
listener = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:%d" % listener.getsockname()[1]
lost = []
pool = Connections(
    awake=AwakeClock(),
    connect_timeout=2.0,
    max_frame=2**24,
    on_request=lambda *_: None,
    on_open=lambda _: None,
    on_loss=lost.append,
)
connection = pool.get(address)
peer = listener.accept()[0]
peer.settimeout(10)


def refusal(use):
    try:
        use()
    except LifecycleError as error:
        return "before a fork" in str(error) and "make a new one" in str(error)


def child():
    assert refusal(lambda: pool.get(address))
    assert refusal(lambda: pool.get("127.0.0.1:1"))
    assert refusal(lambda: pool.connected(address))
    assert refusal(pool.check_process)
    assert pool.foreign
    pool.close()
    pool.close()


def in_child():
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        child()
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def while_held(locks):
    '''Fork while another thread holds the locks.'''
    held, go_on = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        go_on.wait()
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    code = in_child()
    go_on.set()
    thread.join()
    return code


assert in_child() == 0
assert while_held([pool._lock, pool._opening._lock, connection._end, connection._writer._lock]) == 0

assert not pool.foreign and connection.alive and pool.get(address) is connection and not lost
peer.setblocking(False)
try:
    raise AssertionError("the child spoke or hung up: %r" % peer.recv(100))
except BlockingIOError:
    peer.settimeout(10)
answered = threading.Event()
connection.submit(request(RequestCode.GET_MAX_OFFSET), 10, lambda reply: answered.set())
(asked,) = FrameDecoder().receive(peer.recv(4096))
peer.sendall(encode_frame(reply_to(asked)))
assert answered.wait(10)
pool.close()
assert peer.recv(1) == b""
print("done")
"""

NEW_CLIENT_IN_CHILD = """
import os
import warnings

from orderly.client import Client
from orderly.errors import LifecycleError, NameServerUnavailable

warnings.simplefilter("ignore", DeprecationWarning)
made_before = Client(namesrv="127.0.0.1:1").start()
pid = os.fork()
if pid == 0:
    try:
        made_before.admin.topics()
    except LifecycleError as error:
        assert "before a fork" in str(error)
    else:
        os._exit(1)
    with Client(namesrv="127.0.0.1:1") as fresh:
        try:
            fresh.admin.topics()
        except NameServerUnavailable:
            os._exit(0)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
made_before.close()
print("done")
"""


CONSUMER_IN_CHILD = """
import os
import warnings

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from orderly.consumer.probe import Probe
from orderly.errors import LifecycleError
from orderly.testing import FakeBroker

warnings.simplefilter("ignore", DeprecationWarning)

USES = {
    "assignment": lambda c: c.assignment,
    "client_id": lambda c: c.client_id,
    "explain": lambda c: c.explain(),
    "explain_keys": lambda c: c.explain_keys(),
    "health": lambda c: c.health(),
    "parked": lambda c: c.parked(),
    "pause": lambda c: c.pause(),
    "pause_key": lambda c: c.pause_key("k"),
    "paused": lambda c: c.paused,
    "paused_keys": lambda c: c.paused_keys,
    "resume": lambda c: c.resume(),
    "resume_key": lambda c: c.resume_key("k"),
    "run": lambda c: __import__("asyncio").run(c.run()),
    "seek": lambda c: c.seek(None, 0),
    "start": lambda c: c.start(),
    "state": lambda c: c.state,
    "statistics": lambda c: c.statistics("t"),
    "subscribe": lambda c: c.subscribe("t"),
    "unsubscribe": lambda c: c.unsubscribe("t"),
    "wait": lambda c: c.wait(1),
}
QUIET = {"aclose", "close", "config", "group"}  # they change nothing


def child(consumer):
    public = {name for name in (*dir(consumer), *vars(consumer)) if not name.startswith("_")}
    assert public == USES.keys() | QUIET, public ^ (USES.keys() | QUIET)
    for name, use in USES.items():
        try:
            use(consumer)
        except LifecycleError as error:
            assert "before a fork" in str(error), (name, error)
        else:
            raise AssertionError(f"{name} answers as if it ran")
    consumer.close()


with FakeBroker() as broker:
    broker.create_topic("t", 1)
    config = ConsumerConfig(order="key")
    handler = lambda messages, context: Ack()
    consumer = OrderlyConsumer("g", handler, namesrv=broker.namesrv, config=config)
    with consumer.subscribe("t"):
        pid = os.fork()
        if pid == 0:
            try:
                child(consumer)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert consumer.health().live, "the parent goes on"
print("done")
"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=SOON,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_child_is_refused_without_touching_a_lock_and_the_parent_goes_on():
    run(PARENT)


def test_a_childs_copy_of_a_consumer_answers_nothing_as_if_it_ran():
    run(CONSUMER_IN_CHILD)


def test_a_child_makes_a_client_of_its_own():
    run(NEW_CLIENT_IN_CHILD)
