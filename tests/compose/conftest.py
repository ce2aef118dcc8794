"""One cluster from docker/compose.yaml for all tests here."""

import pytest

from tests.compose.project import Compose, as_tested

RUNS_ONCE = "demo"


@pytest.fixture(scope="session")
def compose(tmp_path_factory):
    compose = Compose(tmp_path_factory.mktemp("compose"))
    lasting = [name for name in as_tested()["services"] if name != RUNS_ONCE]
    try:
        compose.do("build", "exporter")
        compose.do("up", "--detach", "--no-build", *lasting)
        for name in lasting:
            if name != "network":  # it does nothing that could be asked for
                compose.wait_until_healthy(name)
        yield compose
    finally:
        compose.do("down", "--volumes", "--timeout", "5")
