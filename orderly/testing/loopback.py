"""Keeps on loopback what has no setting for it: replication of a broker, and both ports of a proxy.

A broker's replication listens on all interfaces, and gives what is stored to whoever sends it eight
bytes. So some classes come first in the class path with a few bytes changed: a text, or which class
or method is called.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from orderly.errors import EmbeddedBrokerError
from orderly.testing.settings import BROKER, NAME_SERVER, PROXY


class _Change(NamedTuple):
    """A change of one of RocketMQ's classes: what is there once, and what is to be there.

    Attributes:
        jar: which one has it, without its release.
        names: of the class; releases differ.
        before, after: bytes.
    """

    jar: str
    names: tuple[str, ...]
    before: bytes
    after: bytes


def _text(text: str) -> bytes:
    """A text, as a class holds it among its constants."""
    return b"\x01" + len(text).to_bytes(2) + text.encode("ascii")


_ADDRESS, _OURS = "java/net/InetSocketAddress", "orderly/LoopbackAddress"
_REPLICATION = "org/apache/rocketmq/store/ha/{}$AcceptSocketService.class"
_CHANGES: Mapping[str, tuple[_Change, ...]] = {
    NAME_SERVER: (),
    BROKER: (
        _Change(
            "rocketmq-store",
            (_REPLICATION.format("DefaultHAService"), _REPLICATION.format("HAService")),  # 4.9
            _text(_ADDRESS),
            _text(_OURS),
        ),
    ),
    PROXY: (
        _Change(
            "rocketmq-remoting",
            ("org/apache/rocketmq/remoting/netty/NettyServerConfig.class",),
            _text("0.0.0.0"),  # noqa: S104 - which is what this is about
            _text("127.0.0.1"),
        ),
        _Change(  # there is no gRPC port: its server is shut down in place of started
            "rocketmq-proxy",
            ("org/apache/rocketmq/proxy/grpc/GrpcServer.class",),
            b"\x0c\x00\x34\x00\x66",
            b"\x0c\x00\x36\x00\x66",
        ),
    ),
}


def changed_classes(main: str, jars: Sequence[Path]) -> dict[str, bytes]:
    """Return the classes that have to come first in a server's class path, by their file's name.

    Args:
        main: settings.NAME_SERVER, BROKER or PROXY.
        jars: of the release that it is of.

    Raises:
        EmbeddedBrokerError: another release, which could not be kept on loopback.
    """
    changed = dict(_changed(change, jars) for change in _CHANGES[main])
    return changed | ({f"{_OURS}.class": _address_class()} if main == BROKER else {})


def _changed(change: _Change, jars: Sequence[Path]) -> tuple[str, bytes]:
    jar = next((jar for jar in jars if jar.name.startswith(f"{change.jar}-")), None)
    name, content = ("", b"") if jar is None else _read(jar, change.names)
    if content.count(change.before) != 1:
        found = "missing" if jar is None else jar.name
        raise EmbeddedBrokerError(
            f"this RocketMQ cannot be kept on 127.0.0.1: the class that listens is not where it is"
            f" in the releases known here ({change.jar}: {found})"
        )
    return name, content.replace(change.before, change.after)


def _read(jar: Path, names: Sequence[str]) -> tuple[str, bytes]:
    """The first of some classes that the jar has; ("", b"") if it has none."""
    with zipfile.ZipFile(jar) as archive:
        present = frozenset(archive.namelist())
        name = next((name for name in names if name in present), "")
        return name, archive.read(name) if name else b""


# --- an address that is loopback's, whatever its port ---------------------------------------------
# It is written here byte by byte (Java Virtual Machine Specification, chapter 4): who runs a broker
# for tests has no compiler, and what one makes nobody can read.


_PUBLIC, _SUPER = 0x0001, 0x0020
_JAVA_8 = 52


def _address_class() -> bytes:
    """Return a class for Java.

    public class LoopbackAddress extends InetSocketAddress {
        public LoopbackAddress(int port) { super("127.0.0.1", port); }
    }
    """
    constants = (
        _text(_OURS),
        _of_kind(7, 1),  # 2: this class
        _text(_ADDRESS),
        _of_kind(7, 3),  # 4: the one above it
        _text("127.0.0.1"),
        _of_kind(8, 5),  # 6: the string
        _text("<init>"),
        _text("(Ljava/lang/String;I)V"),
        _of_kind(12, 7, 8),
        _of_kind(10, 4, 9),  # 10: the constructor that is called
        _text("(I)V"),
        _text("Code"),
    )
    # aload_0, ldc the string, iload_1, invokespecial the constructor, return
    code = b"\x2a\x12\x06\x1b\xb7" + _two(10) + b"\xb1"
    body = _two(3, 2) + len(code).to_bytes(4) + code + _two(0, 0)  # 3 on the stack, 2 variables
    method = _two(_PUBLIC, 7, 11, 1, 12) + len(body).to_bytes(4) + body
    return b"".join(
        (
            b"\xca\xfe\xba\xbe",
            _two(0, _JAVA_8, len(constants) + 1),
            *constants,
            _two(_PUBLIC | _SUPER, 2, 4),
            _two(0, 0, 1),  # no interfaces, no fields, one method
            method,
            _two(0),
        )
    )


def _of_kind(kind: int, *constants: int) -> bytes:
    """A constant that is made of others, by their numbers."""
    return bytes([kind]) + _two(*constants)


def _two(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(2) for number in numbers)
