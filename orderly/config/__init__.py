"""Settings as frozen values, checked when they are made. Durations are seconds, sizes bytes.

`from_env()` reads `ORDERLY_<FIELD>` for each field, e.g. `ORDERLY_NAMESRV`. What is not
available yet is refused here, so that no setting is silently ignored.
"""

from orderly.config.arguments import (
    check_callable,
    check_function,
    check_group,
    check_seconds,
    check_topic,
    is_async,
    parse_addresses,
)
from orderly.config.client import ClientConfig
from orderly.config.consumer import ConsumerConfig, ParkLimits
from orderly.config.fields import MIB
from orderly.config.positions import check_offset, parse_consume_from, parse_position
from orderly.config.producer import ProducerConfig

__all__ = [
    "MIB",
    "ClientConfig",
    "ConsumerConfig",
    "ParkLimits",
    "ProducerConfig",
    "check_callable",
    "check_function",
    "check_group",
    "check_offset",
    "check_seconds",
    "check_topic",
    "is_async",
    "parse_addresses",
    "parse_consume_from",
    "parse_position",
]
