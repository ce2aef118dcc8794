"""What all tests of the project share."""

import contextlib
import logging
import os
import signal
from collections import Counter

import pytest
import structlog
from hypothesis import settings

from orderly.model import MessageQueue
from orderly.testing import EmbeddedProxy
from tests.support import optional
from tests.support.programs import FORMER, has

# Shared, noisy machines: an example that takes long once is no failure.
settings.register_profile("orderly", deadline=None)
settings.load_profile("orderly")


COMPOSE_IS_WANTED = "ORDERLY_TEST_COMPOSE" in os.environ
WHEEL_IS_WANTED = "ORDERLY_TEST_COMPILED" in os.environ
LEFT_OUT = pytest.StashKey[dict[str, int]]()  # tests marked `nightly`, by file
MISSING = pytest.StashKey[dict[str, int]]()  # tests of programs that are not here, by program


def pytest_addoption(parser):
    parser.addoption(
        "--members",
        default="2",
        help="with how many members the behaviour tests run: 2 (default), or several as 1,2,3",
    )
    parser.addoption(
        "--nightly",
        choices=("without", "with", "only"),
        default="without",
        help="tests marked `nightly`: left out (default), run with the others, or nothing else",
    )


def pytest_configure(config):
    """What a script runs in the background inherits that Ctrl-C is ignored; not so the tests."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path, config):
    """Tests of what only another broker has are not collected; the summary says so."""
    name, folder = collection_path.name, collection_path.parent.name
    of_container = name.startswith("test_container") and folder == "integration"
    without_container = of_container and config.getoption("--orderly-broker") != "container"
    without_compose = folder == "compose" and not COMPOSE_IS_WANTED
    without_history = name == "test_builds_are_mixed.py" and not _has_history()
    without_wheel = folder == "compiled" and not WHEEL_IS_WANTED
    left_out = (
        without_container, without_compose, without_wheel, without_history,
    )  # fmt: skip
    return True if any(left_out) else None


def _has_history():
    return optional.in_ci() or has(FORMER)  # in CI its absence is a failure


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """What a fake broker cannot do is not collected on it, nor is what `--nightly` leaves out."""
    if config.getoption("--orderly-broker") == "fake":
        items[:] = [item for item in items if item.get_closest_marker("broker") is None]
    nightly = [item for item in items if item.get_closest_marker("nightly") is not None]
    if config.getoption("--nightly") == "only":
        items[:] = nightly
    elif config.getoption("--nightly") == "without":
        files = Counter(item.nodeid.partition("::")[0] for item in nightly)
        config.stash[LEFT_OUT] = dict(files)
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]
    config.stash[MISSING] = dict(optional.leave_out(items))


def pytest_sessionfinish(session):
    """A process that runs tests beside others tells the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, {})
        session.config.workeroutput["missing"] = session.config.stash.get(MISSING, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    told = getattr(node, "workeroutput", {})  # nothing, if it crashed
    if "left out" in told:
        node.config.stash[LEFT_OUT] = told["left out"]
        node.config.stash[MISSING] = told["missing"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.side_by_side import SideBySide  # noqa: PLC0415  xdist may be missing

    return SideBySide(config, log)


def pytest_terminal_summary(terminalreporter, config):
    """What was not run is said where it is read: at the end."""
    left_out = config.stash.get(LEFT_OUT, {})
    missing = _missing(config)
    without = config.stash.get(MISSING, {})
    if left_out or missing or without:
        terminalreporter.section("not run here")
    for what in missing:
        terminalreporter.write_line(f"tests of {what}")
    for program, count in sorted(without.items()):
        package = optional.PROGRAMS[program].package
        terminalreporter.write_line(f"{count} tests that need {program} (Debian: {package})")
    if left_out:
        count = sum(left_out.values())
        terminalreporter.write_line(f"{count} nightly tests (--nightly=with, make test-all):")
    for file, count in sorted(left_out.items()):
        terminalreporter.write_line(f"  {count:3} of {file}")


def _missing(config):
    """What the tests are about that are not collected here."""
    where = config.getoption("--orderly-broker")
    missing = [] if where == "container" else ["a broker in a container (make test-container)"]
    missing += [] if COMPOSE_IS_WANTED else ["docker/compose.yaml (make test-compose)"]
    missing += [] if WHEEL_IS_WANTED else ["a platform wheel (make test-compiled)"]
    missing += [] if _has_history() else ["a former build (the repository's history)"]
    missing += [] if os.environ.get("ORDERLY_LIBROCKETMQ") else ["the real librocketmq"]
    missing += ["SQL92 and what else needs a real broker"] if where == "fake" else []
    return missing


@pytest.fixture(autouse=True)
def _library_defaults():
    """Each test starts with logging as a program has it that configures nothing."""
    logger = logging.getLogger("orderly")
    before = logger.level, logger.propagate, logger.handlers[:]
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    logger.setLevel(before[0])
    logger.propagate, logger.handlers[:] = before[1:]


@pytest.fixture(scope="session")
def operator_namesrv(pytestconfig, request):
    """The name server itself: clients may reach the brokers through a proxy only."""
    if pytestconfig.getoption("--orderly-broker") == "proxy":
        return request.getfixturevalue("orderly_broker").namesrv
    return request.getfixturevalue("orderly_namesrv")


@pytest.fixture(scope="session")
def proxy_beside(pytestconfig, request, operator_namesrv):
    """The address of a proxy before the session's broker; where that is not ours, no test runs."""
    where = pytestconfig.getoption("--orderly-broker")
    if where == "proxy":
        yield request.getfixturevalue("orderly_proxy").address
    elif where == "embedded":
        request.getfixturevalue("orderly_broker")  # whether there is one, and Java
        with EmbeddedProxy(operator_namesrv) as proxy:
            yield proxy.address
    else:
        pytest.skip("needs --orderly-broker=embedded or proxy")


@pytest.fixture
def queue(topic):
    """The first queue of the test's topic, at a single broker."""
    return MessageQueue(topic, "broker-a", 0)


@pytest.fixture
def events():
    """The library's events, as dicts."""
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def closing():
    """Enters what it is given; all is closed at the end."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context
