"""Examples in docstrings run, with the names of their module and of `orderly`."""

import importlib
from contextlib import nullcontext

import pytest
from sqlalchemy import create_engine, text

import orderly
from orderly.once import Once
from tests.docs import python_blocks
from tests.docs.docstrings import examples
from tests.docs.pages import BadPage
from tests.docs.room import Room
from tests.docs.standins import Recorder
from tests.support.messages import QUEUE, message

EXAMPLES = examples()
NOT_HERE = {
    "orderly.once.redis.RedisOnce": "needs a server; tests/integration/test_once_redis.py has one",
    "orderly.testing.container.RocketMQContainer": "needs a container engine",
    "orderly.testing.embedded.EmbeddedBroker": "tests/integration starts brokers enough",
    "orderly.testing.embedded.EmbeddedCluster": "tests/integration/cluster starts them",
    "orderly.testing.proxy.EmbeddedProxy": "tests/integration/test_proxy.py starts one",
    "orderly.native.consumer.NativeConsumer": "docs/how-to/native.md shows the same, and runs",
    "orderly.native.listeners.listener": "docs/how-to/native.md shows the same, and runs",
    "orderly.native.producer.NativeOrderlyProducer": "docs/how-to/native.md shows it, and runs",
}


def surroundings():
    """What the examples take for granted."""
    engine = create_engine("sqlite://")
    Once().metadata.create_all(engine)
    return {
        "ship": Recorder(),
        "message": message(5, "k"),
        "context": orderly.ConsumeContext(QUEUE, "shipping", key="k"),
        "engine": engine,
        "entry": text("SELECT 1"),
        "handle": lambda messages, context: orderly.Ack(),
        "orderly": orderly,
        "shipping_service": lambda **settings: nullcontext(),
    }


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - NOT_HERE.keys()))
def test_an_example_runs(name, tmp_path, request):
    module, block = EXAMPLES[name]
    public = {name: getattr(orderly, name) for name in orderly.__all__}
    names = public | vars(importlib.import_module(module)) | surroundings()
    room = Room(block.page, tmp_path, request)
    room.names |= names | {"__name__": "__main__"}
    wrong = ""
    try:
        room.create_topic("orders")
        python_blocks.run(room, block)
    except BadPage as error:
        wrong = str(error)
    finally:
        room.close()
        names["engine"].dispose()
    assert not wrong, wrong


def test_what_does_not_run_here_is_there():
    assert EXAMPLES.keys() >= NOT_HERE.keys()
    assert len(EXAMPLES) > 12
