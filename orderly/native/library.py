"""librocketmq itself: its C calls as tables, the library found and loaded, from start to end.

A message, a producer and a consumer are pointers to what only the library can read. It must be shut
down before the process exits: its threads would run on while what they use is destroyed. Nor may it
be shut down while a call of it runs (`Life`).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_longlong,
    c_void_p,
)
from ctypes.util import find_library as find_installed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orderly.config import ClientConfig
from orderly.config.client import at_name_server
from orderly.errors import (
    LifecycleError,
    NativeCallFailed,
    NativeLibraryError,
    OrderlyError,
    UnsupportedByDriver,
)

OK = 0  # of every call that returns a status
CONSUMED, CONSUME_LATER = 0, 1  # what a message callback returns (CConsumeStatus)
CLUSTERING = 1  # CMessageModel

QueueSelector = CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)
"""(number of queues, message, argument of the send) -> index of the queue; not checked there."""

MessageCallback = CFUNCTYPE(c_int, c_void_p, c_void_p)
"""(consumer, message) -> CONSUMED or CONSUME_LATER."""


class StoredMessage(Structure):
    """CSendResult."""

    _fields_ = (("status", c_int), ("message_id", c_char * 256), ("offset", c_longlong))


Signature = tuple[Any, ...]
"""What a call returns, then what it takes."""

_STATUS, _TEXT, _POINTER = c_int, c_char_p, c_void_p
_SETTER: Signature = (_STATUS, _POINTER, _TEXT)
_NUMBER: Signature = (_STATUS, _POINTER, c_int)
_DO: Signature = (_STATUS, _POINTER)
_KEYS: Signature = (_STATUS, _POINTER, _TEXT, _TEXT, _TEXT)

PRODUCING: Mapping[str, Signature] = {
    "CreateMessage": (_POINTER, _TEXT),
    "DestroyMessage": _DO,
    "SetMessageTopic": _SETTER,
    "SetByteMessageBody": (_STATUS, _POINTER, _TEXT, c_int),
    "SetMessageProperty": (_STATUS, _POINTER, _TEXT, _TEXT),
    "CreateProducer": (_POINTER, _TEXT),
    "StartProducer": _DO,
    "ShutdownProducer": _DO,
    "DestroyProducer": _DO,
    "SetProducerNameServerAddress": _SETTER,
    "SetProducerInstanceName": _SETTER,
    "SetProducerSessionCredentials": _KEYS,
    "SetProducerSendMsgTimeout": _NUMBER,
    "SetProducerMaxMessageSize": _NUMBER,
    "SendMessageOrderly": (
        _STATUS, _POINTER, _POINTER, QueueSelector, _POINTER, c_int, POINTER(StoredMessage),
    ),
}  # fmt: skip
"""What a producer needs."""

CONSUMING: Mapping[str, Signature] = {
    "GetMessageTopic": (_TEXT, _POINTER),
    "GetMessageBody": (_POINTER, _POINTER),
    "GetMessageProperty": (_TEXT, _POINTER, _TEXT),
    "GetMessageId": (_TEXT, _POINTER),
    "GetMessageQueueId": (c_int, _POINTER),
    "GetMessageReconsumeTimes": (c_int, _POINTER),
    "GetMessageStoreSize": (c_int, _POINTER),
    "GetMessageBornTimestamp": (c_longlong, _POINTER),
    "GetMessageStoreTimestamp": (c_longlong, _POINTER),
    "GetMessageQueueOffset": (c_longlong, _POINTER),
    "GetMessageCommitLogOffset": (c_longlong, _POINTER),
    "CreatePushConsumer": (_POINTER, _TEXT),
    "StartPushConsumer": _DO,
    "ShutdownPushConsumer": _DO,
    "DestroyPushConsumer": _DO,
    "SetPushConsumerNameServerAddress": _SETTER,
    "SetPushConsumerInstanceName": _SETTER,
    "SetPushConsumerSessionCredentials": _KEYS,
    "SetPushConsumerThreadCount": _NUMBER,
    "SetPushConsumerMessageModel": _NUMBER,
    "Subscribe": (_STATUS, _POINTER, _TEXT, _TEXT),
    "RegisterMessageCallbackOrderly": (_STATUS, _POINTER, MessageCallback),
}
"""What a consumer and its listener need."""

BODY_LENGTH = "GetMessageBodyLength"
NEWER: Mapping[str, Signature] = {
    BODY_LENGTH: (c_int, _POINTER),  # in no release up to 2.2.0
    "GetLatestErrorMessage": (_TEXT,),  # 1.2.5
}
"""What some releases lack."""


VARIABLE = "ORDERLY_LIBROCKETMQ"
HOW_TO_GET_IT = (
    "librocketmq is on no package registry. Download a package for your system from the releases"
    " of apache/rocketmq-client-cpp on GitHub, or build it with that project's build.sh."
    f" Then set {VARIABLE} to the path of librocketmq.so."
    " OrderlyProducer and OrderlyConsumer do not need it"
)
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_USUAL = tuple(
    f"{folder}/librocketmq{_SUFFIX}" for folder in ("/usr/local/lib", "/usr/lib", "/usr/lib64")
)


def find_library() -> str | None:
    """Return where librocketmq is, or None.

    ORDERLY_LIBROCKETMQ always wins; then comes the one in rocketmq-client-python, then the
    system's.
    """
    if named := os.environ.get(VARIABLE):
        return named
    return _beside_the_binding() or find_installed("rocketmq") or _usual()


def _beside_the_binding() -> str | None:
    """The one that rocketmq-client-python's wheels hold; the package is not imported."""
    spec = find_spec("rocketmq")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return _first(f"{folder}/librocketmq{_SUFFIX}" for folder in folders)


def _usual() -> str | None:
    return _first(_USUAL)


def _first(paths: Iterable[str]) -> str | None:
    return next((path for path in paths if Path(path).exists()), None)


class Library:
    """librocketmq, loaded. Thread-safe.

    Args:
        path: of the library; None: where `find_library` finds it.

    Attributes:
        path: of the library.

    Raises:
        NativeLibraryError: not found, or it cannot be loaded.
    """

    def __init__(self, path: str | None = None) -> None:
        found = path or find_library()
        if found is None:
            raise NativeLibraryError(f"no librocketmq was found. {HOW_TO_GET_IT}")
        self.path = found
        try:
            self._dll = ctypes.CDLL(found)
        except OSError as error:
            raise NativeLibraryError(
                f"librocketmq at {found} cannot be loaded: {error}. It must be built for this"
                f" machine, and the libraries that it uses must be installed. {HOW_TO_GET_IT}"
            ) from error
        self._calls = {
            name: call
            for name, signature in {**PRODUCING, **CONSUMING, **NEWER}.items()
            if (call := self._typed(name, signature)) is not None
        }

    def _typed(self, name: str, signature: Signature) -> Callable[..., Any] | None:
        call = getattr(self._dll, name, None)
        if call is not None:
            call.restype, *call.argtypes = signature
        return call

    def __contains__(self, name: str) -> bool:
        return name in self._calls

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a C call.

        Raises:
            NativeLibraryError: this library does not have it.
        """
        self.require((name,))
        return self._calls[name]

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of `names` that this library does not have."""
        return tuple(name for name in names if name not in self._calls)

    def require(self, names: Iterable[str]) -> None:
        """Raise NativeLibraryError unless the library has all of `names`."""
        if missing := self.missing(names):
            raise NativeLibraryError(
                f"librocketmq at {self.path} lacks {', '.join(missing)}. It is too old (see"
                f" docs/how-to/native.md), or it is not librocketmq. {HOW_TO_GET_IT}"
            )

    def do(self, name: str, *arguments: Any) -> None:
        """Make a call that returns a status.

        Raises:
            NativeCallFailed: the status is not OK.
        """
        status = self[name](*arguments)
        if status != OK:
            raise NativeCallFailed(f"{name}: status {status}{self.last_error()}", code=status)

    def last_error(self) -> str:
        """Return ": " and the text of this thread's last failed call, or "".

        After a send it is often not the cause.
        """
        if "GetLatestErrorMessage" not in self:
            return ""
        text = (self["GetLatestErrorMessage"]() or b"").decode("utf-8", "replace").strip()
        return f": {text}" if text else ""


_running: dict[int, Life] = {}


class Life:
    """Thread-safe.

    Args:
        what: "producer" or "consumer", for errors.
        start, end: begin and end the work; called at most once each.
    """

    def __init__(self, what: str, start: Callable[[], None], end: Callable[[], None]) -> None:
        self._what = what
        self._start = start
        self._end = end
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._started = False
        self._closed = False
        self._ended = False
        self._calls = 0

    def begin(self) -> None:
        """Start; from now on the process' exit ends it, too.

        Raises:
            LifecycleError: started or closed before, or made by the parent of a forked process.
        """
        self._check_process()
        with self._changed:
            if self._started or self._closed:
                raise LifecycleError(f"a {self._what} can be started only once; make a new one")
            self._start()
            self._started = True
        _running[id(self)] = self

    def finish(self) -> None:
        """Wait for the calls that run, then end. Idempotent; in a forked child without effect.

        It returns when the end is over, whoever began it: the process must not exit before. After
        a Ctrl-C while it waits, it can be called again.
        """
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._calls)  # each has its own time-out, in C
            if self._started and not self._ended:
                self._ended = True
                self._end()
        _running.pop(id(self), None)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a call of the library, which `finish` waits for.

        Raises:
            LifecycleError: it does not run.
        """
        with self._changed:
            self.check()
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """Raise LifecycleError unless it runs."""
        self._check_process()
        if self._closed or not self._started:
            state = "is closed; make a new one" if self._closed else "is not started"
            raise LifecycleError(f"the {self._what} {state}; use it in a with statement")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise LifecycleError(
                f"the {self._what} was made before this process was forked, and its threads are"
                " the parent's; make a new one here"
            )


@atexit.register
def _finish_all() -> None:
    for life in reversed(list(_running.values())):  # what came later may use what came before
        with suppress(OrderlyError):
            life.finish()


_CHANNEL = b"ALIYUN"  # what the library's own examples pass; brokers do not read it


def check_driver(config: ClientConfig | None, namesrv: str) -> ClientConfig:
    """Return the settings.

    Raises:
        ConfigError: no config; no name server is set, or a bad one.
        UnsupportedByDriver: TLS, as librocketmq does not verify as `tls_verify` says; broker_hosts,
            as it connects to every address that a name server lists.
    """
    settings = at_name_server(config, namesrv)
    if settings.tls or settings.security_token:
        raise UnsupportedByDriver(
            "the native driver does not support tls and security_token: librocketmq cannot check a"
            " server's certificate the way tls_verify asks for; use OrderlyProducer and"
            " OrderlyConsumer"
        )
    if settings.broker_hosts:
        raise UnsupportedByDriver(
            "the native driver does not support broker_hosts: librocketmq connects to every"
            " address that a name server lists; use OrderlyProducer and OrderlyConsumer"
        )
    return settings


def instance_name() -> bytes:
    """A new name for each producer and consumer.

    librocketmq's client id is address, pid and this: two containers with the same address and pid
    would hold each other's locks.
    """
    return f"orderly-{os.getpid()}-{secrets.token_hex(4)}".encode()


def connect(
    library: Library, kind: str, handle: int, settings: ClientConfig, instance: bytes
) -> None:
    """Give a producer or consumer its name servers, its own name and its keys.

    Args:
        library: whose it is.
        kind: "Producer" or "PushConsumer", as in the names of the calls.
        handle: of the producer or consumer.
        settings: of the client.
        instance: see `instance_name`.

    Raises:
        NativeCallFailed: it did not take one of them.
    """
    library.do(f"Set{kind}NameServerAddress", handle, settings.namesrv.encode())
    library.do(f"Set{kind}InstanceName", handle, instance)
    if settings.access_key:
        keys = settings.access_key.encode(), settings.secret_key.encode()
        library.do(f"Set{kind}SessionCredentials", handle, *keys, _CHANNEL)
