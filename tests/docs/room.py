"""Where the blocks of one page run: a broker, an empty folder, names, and what surrounds them."""

import asyncio
import importlib.util
import os
import re
import shutil
import sys
import threading
import traceback
import types
from pathlib import Path

from orderly import Ack, ConsumerConfig, Message, OrderlyConsumer
from orderly.cli.root import run as run_orderly
from orderly.testing import FakeBroker
from orderly.testing.cache import cache_folder
from orderly.testing.ports import free_port
from tests.docs.pages import ROOT, BadPage
from tests.support.waiting import eventually, patient_client, patient_producer

SURROUNDINGS = Path(__file__).parent / "surroundings"
_PORT = 9876
DOCUMENTED = f"localhost:{_PORT}"  # in a page; it stands for the broker of the room
SOON = 60  # seconds: a hang-guard

_KEPT = ("ORDERLY_REQUIRE_BROKER", "ORDERLY_MAVEN_URL")  # of the machine's own environment
_SPECIAL = ("TOPICS", "BROKER", "REPLACE", "before", "after", "done", "check")


def surroundings_of(page):
    """The file that a page's surroundings are in, whether it is there or not."""
    name = page.removeprefix("docs/").removesuffix(".md")
    return SURROUNDINGS / (re.sub(r"\W", "_", name).lower() + ".py")


class Room:
    """What the blocks of a page share.

    Attributes:
        names: the namespace of its Python blocks.
        broker: its FakeBroker; None on a real one.
        namesrv: the name server's address.
        is_own: whether the page starts its broker itself (`BROKER = "own"`).
        folder: where the blocks run.
        special: what the surroundings say besides names, see `_SPECIAL`.
    """

    def __init__(self, page, folder, request):
        self.page, self.folder, self._request = page, folder, request
        self._cleanups, self._endings = [], []
        self._threads = set(threading.enumerate())
        self.fixture("monkeypatch").chdir(folder)
        self.names = _load(page)
        self.special = {name: self.names.pop(name, None) for name in _SPECIAL}
        self.names |= {"__name__": "__main__"}
        self.is_own = self.special["BROKER"] == "own"
        self.broker, self.namesrv = self._broker()
        if page.startswith("examples/"):
            shutil.copytree((ROOT / page).parent, folder, dirs_exist_ok=True)
        self._environment()
        if self.is_own:
            self.cleanup(run_orderly, ["broker", "stop"])
        for topic, queues in (self.special["TOPICS"] or {}).items():
            self.create_topic(topic, queues)

    # --- for surroundings ----------------------------------------------------------------------

    def fixture(self, name):
        """The value of a pytest fixture."""
        return self._request.getfixturevalue(name)

    def cleanup(self, function, *args):
        """Call it after the page, the last one first."""
        self._cleanups.append((function, args))

    def create_topic(self, name, queues=4):
        """Create a topic; returns its name."""
        with patient_client(self.namesrv) as client:
            client.admin.create_topic(name, queues)
        return name

    def send(self, topic, key, *bodies, **settings):
        """Send messages with that key; `settings` are those of the producer."""
        with patient_producer(self.namesrv, **settings) as producer:
            for body in bodies:
                producer.send(Message(topic, body, sharding_key=key))

    def keep_sending(self, topic, key, body):
        """Send that message every 50 ms, until the page ends: for groups that begin at the end."""
        ended = threading.Event()

        def go_on():
            with patient_producer(self.namesrv) as producer:
                while not ended.wait(0.05):
                    producer.send(Message(topic, body, sharding_key=key))

        sender = threading.Thread(target=go_on, name="keep-sending")
        sender.start()
        self.cleanup(sender.join)
        self.cleanup(ended.set)

    def consume(self, group, topic, handle=lambda messages, context: Ack(), **settings):
        """Start a member of a group; it consumes from the first message until the page ends.

        Args:
            group: of this name.
            topic: of this name.
            handle: its handler.
            settings: of ConsumerConfig.
        """
        config = ConsumerConfig(**{"consume_from": "first", "commit_interval": 0.1} | settings)
        client = patient_client(self.namesrv)
        self.cleanup(client.close)
        consumer = OrderlyConsumer(group, handle, client=client, config=config)
        consumer.subscribe(topic).start()
        self.cleanup(consumer.close)
        return consumer

    def finished(self, group, topic):
        """Wait until a group has committed everything that a topic holds."""
        with patient_client(self.namesrv) as client:
            eventually(
                lambda: (
                    (found := client.admin.consume_stats(group, topic).values())
                    and all(pair.consumer_offset == pair.broker_offset for pair in found)
                ),
                SOON,
            )

    # --- for blocks ----------------------------------------------------------------------------

    def text(self, block):
        """A block's text as it is run: with the room's address, and what the page replaces."""
        text = block.text
        for old, new in (self._address() | (self.special["REPLACE"] or {})).items():
            text = text.replace(old, new)
        return text

    def _address(self):
        port = self.namesrv.rpartition(":")[2]
        known = dict.fromkeys((DOCUMENTED, f"127.0.0.1:{_PORT}"), self.namesrv)
        return known | {f"--port {_PORT}": f"--port {port}"}

    def documented(self, output):
        """An output as the page would show it."""
        return output.replace(self.namesrv, DOCUMENTED).replace(str(self.folder), "")

    def call(self, special, *args):
        """Call a function of the surroundings, if they have it."""
        function = self.special[special]
        return function(self, *args) if function else None

    def is_done(self):
        """Whether to press Ctrl-C: as the surroundings say, else once it waits for a consumer.

        One that has queues. Not before: between its start and the block's first line in `with`,
        Ctrl-C would leave it running, as in any program.
        """
        if self.special["done"]:
            return self.call("done")
        found = [value for value in self.names.values() if isinstance(value, OrderlyConsumer)]
        return any(consumer.assignment for consumer in found) and _main_thread_waits()

    def at_the_end(self, function):
        """Call it after the page's last block; unlike a cleanup it may find the page wrong."""
        self._endings.append(function)

    def end(self):
        """Look at what goes on beside the blocks, then at what the surroundings check."""
        for function in self._endings:
            function()
        self.call("check")

    def close(self):
        """Clean up, and see that nothing goes on."""
        for function, args in reversed(self._cleanups):
            function(*args)
        if self.broker is not None:
            self.broker.stop()
        try:
            eventually(lambda: not self._left(), SOON)
        except AssertionError:
            raise BadPage(
                f"{self.page}: goes on after its end: {', '.join(self._left())}"
            ) from None

    def _left(self):
        left = set(threading.enumerate()) - self._threads
        return [
            thread.name for thread in left if not thread.name.startswith(("asyncio_", "Thread"))
        ]

    def _broker(self):
        if self.special["BROKER"] == "real":
            return None, self.fixture("orderly_namesrv")
        if self.is_own:
            return None, f"127.0.0.1:{free_port()}"
        broker = FakeBroker(brokers=self.special["BROKER"] or ("broker-a",)).start()
        return broker, broker.namesrv

    def _environment(self):
        patch = self.fixture("monkeypatch")
        for name in [name for name in os.environ if name.startswith("ORDERLY_")]:
            if name not in _KEPT:
                patch.delenv(name)
        patch.setenv("ORDERLY_NAMESRV", self.namesrv)
        patch.setenv("ORDERLY_CACHE", str(_cache(self.folder)))
        patch.setenv("HOME", str(self.folder))
        patch.setenv("XDG_CONFIG_HOME", str(self.folder / ".config"))
        patch.setenv("COLUMNS", "120")
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.syspath_prepend(str(self.folder))


def _main_thread_waits():
    stack = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident])
    waiting = {OrderlyConsumer.wait.__code__, asyncio.BaseEventLoop.run_forever.__code__}
    return any(frame.f_code in waiting for frame, _ in stack)


def _cache(folder):
    """A cache of the page's own, so that its `orderly broker start` is nobody else's; same jars."""
    jars, cache = cache_folder() / "jars", folder / ".cache"
    jars.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    (cache / "jars").symlink_to(jars)
    return cache


def _load(page):
    """The names that the surroundings define."""
    path = surroundings_of(page)
    if not path.exists():
        return vars(types.ModuleType("page"))
    spec = importlib.util.spec_from_file_location(f"surroundings_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)
