"""Variables of the environment that begin with ORDERLY_ and are no setting: most are misspelt."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping

from orderly.config.arguments import meant
from orderly.log import get_logger

_log = get_logger("orderly.config")

PREFIX = "ORDERLY_"
# What no field of a config has; the table "Environment" of the docs says what each means.
OTHERS = tuple(
    PREFIX + name
    for name in (
        "CACHE",
        "COLOR",
        "CONFIG",
        "CONTEXT",
        "JARS",
        "LIBROCKETMQ",
        "MAVEN_URL",
        "REQUIRE_BROKER",
        "ROCKETMQ_IMAGE",
    )
)
# Those of tests; and Kubernetes sets ORDERLY_EXPORTER_PORT and others for a service that is called
# orderly-exporter.
_OF_OTHERS = re.compile(
    r"^ORDERLY_TEST_|_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)
_NEAR, _VERY_NEAR = 0.75, 0.85  # ORDERLY_LOCKS_TIMEOUT, of a command, is not ORDERLY_CLOSE_TIMEOUT


def warn_of_unknown(
    env: Mapping[str, str], known: Collection[str], *, only_near: bool, but: Iterable[str] = ()
) -> None:
    """Log a warning for each variable that nobody reads, once.

    Args:
        env: the environment.
        known: variables that are read, OTHERS apart.
        only_near: warn only if the name is near to a known one. A program may have variables of
            its own, and those of commands.
        but: how others begin, of which nothing is known here.
    """
    names, begins = {*known, *OTHERS}, tuple(but)
    for name in env:
        if not name.startswith(PREFIX) or name in names or name.startswith(begins):
            continue
        near = meant(name, names, PREFIX, _VERY_NEAR if only_near else _NEAR)
        if (near or not only_near) and not _OF_OTHERS.search(name):
            _warn(name, f"nothing reads it{near}")


@functools.cache
def _warn(name: str, hint: str) -> None:
    _log.warning("settings.variable_unknown", variable=name, hint=hint)
