"""Settings as frozen values, checked when they are made. Durations are seconds, sizes bytes.

`from_env()` reads `ORDERLY_<FIELD>` for each field, e.g. `ORDERLY_NAMESRV`. What is not
available yet is refused here, so that no setting is silently ignored.
"""

from orderly.config.client import ClientConfig
from orderly.config.consumer import ConsumerConfig
from orderly.config.fields import MIB
from orderly.config.functions import check_callable, check_function, is_async
from orderly.config.names import check_group, check_topic, parse_addresses
from orderly.config.numbers import check_seconds
from orderly.config.park_limits import ParkLimits
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
