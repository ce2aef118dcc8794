"""pytest plugin: a RocketMQ broker and fresh topics for tests. Registered as `orderly`.

`--orderly-broker` chooses what the tests run on. Imports are inside the fixtures, because pytest
loads this file in every run of every project that has `orderly` installed.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from orderly.testing.container import RocketMQContainer
    from orderly.testing.embedded import EmbeddedBroker
    from orderly.testing.fake.broker import FakeBroker
    from orderly.testing.proxy import EmbeddedProxy

    Broker = EmbeddedBroker | RocketMQContainer | FakeBroker

_OURS = ("embedded", "container", "proxy", "fake")
_PROXY = "proxy"
_USE_IT = {"orderly_broker", "orderly_namesrv", "orderly_topic"}  # fixtures
_GONE = "the broker of this session is gone"
_ENDED = pytest.StashKey["Callable[[], str]"]()  # says why the session's broker ended, or ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--orderly-broker`."""
    parser.getgroup("orderly").addoption(
        "--orderly-broker",
        default=os.environ.get("ORDERLY_TEST_BROKER", "embedded"),
        metavar="WHERE",
        help="what tests run on: embedded (default; a local RocketMQ 5.5.0), container (the same"
        " in Docker; ORDERLY_ROCKETMQ_IMAGE names the image), proxy (embedded, and clients reach it"
        " through RocketMQ's proxy in cluster mode), fake (inside this process, no Java), or the"
        " HOST:PORT of a name server",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a `--orderly-broker` that means nothing, before any test runs."""
    config.addinivalue_line(
        "markers", "broker: needs a real broker; skipped with --orderly-broker=fake"
    )
    where = config.getoption("--orderly-broker")
    if where not in _OURS and not _is_address(where):
        raise pytest.UsageError(
            f"--orderly-broker={where}: choose embedded, container, proxy, fake or HOST:PORT (of a"
            " name server)"
        )


def _is_address(where: str) -> bool:
    from orderly.config.arguments import parse_addresses  # noqa: PLC0415
    from orderly.errors import ConfigError  # noqa: PLC0415

    try:
        return ":" in where and bool(parse_addresses(where))
    except ConfigError:
        return False


def pytest_report_header(config: pytest.Config) -> str:
    """Say what the tests run on."""
    return f"orderly: broker={config.getoption('--orderly-broker')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need a real broker if the run uses the fake one."""
    if config.getoption("--orderly-broker") == "fake":
        for item in items:
            if item.get_closest_marker("broker") is not None:
                item.add_marker(
                    pytest.mark.skip(reason="needs a real broker, not --orderly-broker=fake")
                )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail at once, and say why, where the session's container ended in an earlier test."""
    if why := _why_it_ended(item):
        pytest.fail(f"{_GONE}: {_first_line(why)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Also show it in the report of the test in which it ended."""
    report = yield
    why = _why_it_ended(item) if report.failed else ""
    if why and _first_line(why) not in report.longreprtext:
        report.sections.append((_GONE, why))
    return report


def _why_it_ended(item: pytest.Item) -> str:
    ended = item.config.stash.get(_ENDED, None)
    if ended is None or _USE_IT.isdisjoint(getattr(item, "fixturenames", ())):
        return ""
    from orderly.testing.container import ContainerUnavailable  # noqa: PLC0415

    try:
        return ended()
    except ContainerUnavailable as error:
        return str(error)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


@pytest.fixture(scope="session")
def orderly_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """The broker of this session: an EmbeddedBroker, RocketMQContainer or FakeBroker.

    Use this fixture in tests that stop or pause the broker. They are skipped on a broker that
    orderly did not start. With --orderly-broker=proxy it is an EmbeddedBroker whose `namesrv` is
    its name server, for administration.
    """
    where = pytestconfig.getoption("--orderly-broker")
    if where not in _OURS:
        pytest.skip(f"needs a broker that it may stop; --orderly-broker={where} is not ours")
    broker = _STARTS[where](pytestconfig)
    yield broker
    broker.stop()


def _fake(config: pytest.Config) -> FakeBroker:  # noqa: ARG001
    from orderly.testing.fake.broker import FakeBroker  # noqa: PLC0415

    return FakeBroker().start()


def _embedded(config: pytest.Config) -> EmbeddedBroker:
    from orderly.testing.embedded import EmbeddedBroker  # noqa: PLC0415
    from orderly.testing.jars import JarsUnavailable  # noqa: PLC0415
    from orderly.testing.java import JavaNotFound  # noqa: PLC0415

    behind_proxy = config.getoption("--orderly-broker") == _PROXY
    properties = {"enableMixedMessageType": "true"} if behind_proxy else {}
    try:
        return EmbeddedBroker(broker_properties=properties).start()
    except (JarsUnavailable, JavaNotFound) as error:  # a broker that fails to start is a failure
        _missing(error)


def _in_container(config: pytest.Config) -> RocketMQContainer:
    from orderly.testing.container import ContainerUnavailable, RocketMQContainer  # noqa: PLC0415

    try:
        broker = RocketMQContainer(progress=lambda text: _show(config, text)).start()
    except ContainerUnavailable as error:
        _missing(error)
    config.stash[_ENDED] = broker.ended
    return broker


_STARTS: dict[str, Callable[[pytest.Config], Broker]] = {
    "embedded": _embedded,
    "container": _in_container,
    "proxy": _embedded,
    "fake": _fake,
}


def _show(config: pytest.Config, text: str) -> None:
    """Write past pytest's capture: an image may take minutes to come."""
    capture = config.pluginmanager.getplugin("capturemanager")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if capture is not None and reporter is not None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"orderly: {text}")


@pytest.fixture(scope="session")
def orderly_proxy(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> Iterator[EmbeddedProxy]:
    """The proxy of a session with --orderly-broker=proxy; without one the test is skipped."""
    from orderly.testing.proxy import EmbeddedProxy  # noqa: PLC0415

    if pytestconfig.getoption("--orderly-broker") != _PROXY:
        pytest.skip("needs --orderly-broker=proxy")
    with EmbeddedProxy(request.getfixturevalue("orderly_broker").namesrv) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def orderly_namesrv(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> str:
    """What clients name as name server ("host:port"), as `--orderly-broker` chose."""
    where = pytestconfig.getoption("--orderly-broker")
    if where == _PROXY:
        return str(request.getfixturevalue("orderly_proxy").address)
    return _administered(where, request)


def _administered(where: str, request: pytest.FixtureRequest) -> str:
    """A name server itself: a proxy makes no topics."""
    return where if ":" in where else str(request.getfixturevalue("orderly_broker").namesrv)


@pytest.fixture(scope="session")
def orderly_topic(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> Iterator[Callable[..., str]]:
    """A function that creates a fresh topic: `orderly_topic(queues=8) -> name`.

    With --orderly-broker=proxy it takes messages with and without a sharding key (type MIXED).
    """
    from orderly.client import Client  # noqa: PLC0415
    from orderly.config import ClientConfig  # noqa: PLC0415
    from orderly.protocol.topics import MessageType  # noqa: PLC0415

    where = pytestconfig.getoption("--orderly-broker")
    namesrv = _administered(where, request)
    kind = MessageType.MIXED if where == _PROXY else None
    numbers = itertools.count(1)
    # Patient: a broker on a busy machine may be slow, and a test is not to fail for that.
    config = ClientConfig(namesrv=namesrv, request_timeout=30.0, connect_timeout=30.0)
    with Client(config) as client:

        def create(queues: int = 8) -> str:
            name = f"test-{time.time_ns():x}-{next(numbers)}"
            client.admin.create_topic(name, queues, message_type=kind)
            return name

        yield create


@pytest.fixture
def orderly_fake() -> Iterator[FakeBroker]:
    """An `orderly.testing.FakeBroker` for this test alone, independent of `--orderly-broker`.

    It starts in milliseconds, has no topic yet, and its `script` makes requests fail:

        def test_an_order_is_shipped(orderly_fake):
            orderly_fake.create_topic("orders", queues=4)
            with shipping_service(namesrv=orderly_fake.namesrv): ...
    """
    from orderly.testing.fake.broker import FakeBroker  # noqa: PLC0415

    with FakeBroker() as broker:
        yield broker


def _missing(error: Exception) -> NoReturn:
    """No broker: a skip on a laptop, a failure where one is required."""
    if _is_set("ORDERLY_REQUIRE_BROKER") or _is_set("CI"):
        pytest.fail(f"no broker: {error}", pytrace=False)
    pytest.skip(f"no broker: {error}")


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no")
