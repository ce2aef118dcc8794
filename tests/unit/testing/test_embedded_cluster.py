"""What an embedded cluster refuses before anything is started."""

import pytest

from orderly.errors import ConfigError, LifecycleError
from orderly.testing import EmbeddedCluster


@pytest.mark.parametrize(
    ("masters", "slaves"),
    [([], []), ("broker-a", []), (["a", "a"], []), (["a"], ["b"]), (["a"], "a")],
)
def test_brokers_that_make_no_cluster(masters, slaves):
    with pytest.raises(ConfigError, match="master"):
        EmbeddedCluster(masters, slaves)


def test_it_has_no_brokers_before_its_start():
    cluster = EmbeddedCluster()
    assert (cluster.brokers, cluster.pids) == ((), ())
    with pytest.raises(LifecycleError, match="not started"):
        cluster.broker("broker-a")
    with pytest.raises(LifecycleError, match="not started"):
        _ = cluster.directory
    cluster.stop()
