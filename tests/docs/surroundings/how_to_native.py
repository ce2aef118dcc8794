"""docs/how-to/native.md: librocketmq's stub with a topic, and the Python binding's consumer."""

import ctypes
import sys
import types

from tests.native.worlds import compile_stub


class stop:  # noqa: N801  the page's name for its event
    """The program is told to stop at once."""

    wait = staticmethod(lambda: None)


class PushConsumer:
    """As much of rocketmq-client-python's as the page calls."""

    def __init__(self, group, orderly=False):
        assert orderly

    def set_name_server_address(self, address):
        """Do nothing."""

    def subscribe(self, topic, callback):
        assert callable(callback)

    def start(self):
        """Do nothing."""

    def shutdown(self):
        """Do nothing."""


def before(page, block):
    if block.number > 1:
        return
    path = compile_stub(page.folder)
    ctypes.CDLL(path).StubTopic(b"orders", 4)
    patch = page.fixture("monkeypatch")
    patch.setenv("ORDERLY_LIBROCKETMQ", path)
    binding = types.ModuleType("rocketmq.client")
    binding.PushConsumer = PushConsumer
    patch.setitem(sys.modules, "rocketmq", types.ModuleType("rocketmq"))
    patch.setitem(sys.modules, "rocketmq.client", binding)
