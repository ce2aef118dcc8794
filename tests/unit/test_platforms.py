"""What differs on macOS, and that an import on Windows says so: the platform is faked.

Each runs in a process of its own: the standard library is imported as on this system, and then the
names that only Linux has are taken away.
"""

import subprocess
import sys

COMMON = """
import asyncio, ctypes, multiprocessing, socket, ssl, subprocess, sys, time
"""
MACOS = """
del time.CLOCK_BOOTTIME, socket.TCP_USER_TIMEOUT
socket.TCP_KEEPALIVE = socket.TCP_KEEPIDLE
del socket.TCP_KEEPIDLE
sys.platform = "darwin"
"""
SENDS_AND_CONSUMES = """
from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer
from orderly import clock
from orderly.client.connection import open_socket
from orderly.native import library
from orderly.testing import FakeBroker

assert clock._CLOCK == time.CLOCK_MONOTONIC
assert library._SUFFIX == ".dylib"
with FakeBroker() as broker:
    broker.create_topic("orders", 4)
    sock = open_socket(broker.namesrv, connect_timeout=5, write_timeout=5)
    print("idle", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE))
    sock.close()
    with OrderlyProducer(namesrv=broker.namesrv) as producer:
        for number in range(20):
            key = f"k{number % 3}"
            producer.send(Message("orders", b"%d" % number, sharding_key=key))
    for order in ("queue", "key"):
        seen = []
        config = ConsumerConfig(order=order, consume_from="first")
        handler = lambda messages, context: seen.extend(messages) or ConsumeResult.SUCCESS
        with OrderlyConsumer(
            f"billing-{order}", handler, namesrv=broker.namesrv, config=config
        ).subscribe("orders"):
            deadline = time.monotonic() + 60
            while len(seen) < 20 and time.monotonic() < deadline:
                time.sleep(0.05)
        numbers = [int(message.body) for message in seen]
        print(order, [[n for n in numbers if n % 3 == key] for key in range(3)])
"""
IN_ORDER = [[*range(key, 20, 3)] for key in range(3)]


def outcome(*parts):
    command = [sys.executable, "-c", "\n".join(parts)]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def test_on_macos_messages_are_sent_and_consumed_in_order():
    done = outcome(COMMON, MACOS, SENDS_AND_CONSUMES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["idle 30", f"queue {IN_ORDER}", f"key {IN_ORDER}"]


def test_on_windows_an_import_says_in_one_sentence_where_to_use_it():
    done = outcome(COMMON, 'sys.platform = "win32"', "import orderly")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: orderly runs on Linux and macOS")
    assert "WSL 2" in last
