"""A broker whose queue locks run out sooner than after 60 s, and members in step with it.

Only numbers change, in proportion: the broker's lease, half of it for the trust in a lock, and
shorter rounds and time-outs.
"""

from orderly import ClientConfig, ConsumerConfig
from orderly.config.consumer import BROKER_LEASE
from orderly.testing import EmbeddedBroker

SHORT = 12.0  # seconds; a lease long enough for a busy machine, short enough to wait for


def leasing_broker(lease, **settings):
    """An embedded broker (not started) that frees a lock `lease` seconds after its renewal."""
    option = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={round(lease * 1000)}"
    return EmbeddedBroker(java_options=[option, *settings.pop("java_options", ())], **settings)


def consumer_config(lease, **settings):
    """A member's settings for that broker; the library's own for the true 60 s."""
    short = {
        "lock_trust": lease / 2,
        "lock_interval": lease / 8,
        "rebalance_interval": 5.0,
        "pull_retry": 0.5,
        "commit_interval": 0.5,
    }
    ours = {} if lease == BROKER_LEASE else short
    return ConsumerConfig(**{"consume_from": "first"} | ours | settings)


def client_config(lease, namesrv):
    """A client's settings for that broker."""
    if lease == BROKER_LEASE:
        return ClientConfig(namesrv=namesrv)
    patience = max(lease / 8, 1.0)  # a member that cannot even start tells nothing of leases
    return ClientConfig(namesrv=namesrv, request_timeout=patience, connect_timeout=patience)
