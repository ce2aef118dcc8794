"""A write as planned on the driver: what each column is for, which queues all tasks count on.

Everything that can be refused is refused here, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from orderly.client import Client
from orderly.errors import ConfigError, NameServerUnavailable, RouteError
from orderly.log import get_logger
from orderly.namespace import wrap
from orderly.producer.topics import Topics
from orderly.selectors import KEYED, Layout
from orderly.spark.access import Access
from orderly.spark.options import LOOSE, ROUND_ROBIN, WriteOptions

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TEXT = ("string",)


@dataclass(frozen=True, slots=True)
class _Role:
    """Attributes: option (that names the column), usual (its name), types (Spark's, that fit)."""

    option: str
    usual: str
    types: tuple[str, ...]


_ROLES = {
    "key": _Role("keyColumn", "sharding_key", (*_TEXT, *_INTEGERS)),
    "order": _Role("orderBy", "", (*_INTEGERS, "date", "timestamp", "timestamp_ntz")),
    "body": _Role("bodyColumn", "body", ("binary", "string")),
    "tag": _Role("tagColumn", "tag", _TEXT),
    "keys": _Role("keysColumn", "keys", _TEXT),
    "properties": _Role("propertiesColumn", "properties", ("map<string,string>",)),
    "id": _Role("idColumn", "", (*_TEXT, *_INTEGERS)),
}


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the columns; None: the rows have no such column. Picklable."""

    body: str
    key: str | None = None
    order: str | None = None
    tag: str | None = None
    keys: str | None = None
    properties: str | None = None
    id: str | None = None


def assign_roles(options: WriteOptions, types: Mapping[str, str]) -> Roles:
    """Find the column for each role.

    Args:
        options: of the write.
        types: of the rows' columns, by name, as Spark writes them ("bigint").

    Raises:
        ConfigError: a column that is missing, has a type that does not fit, has no role, or two;
            or one that the selector has no use for.
    """
    chosen = {name: _column(role, options, types) for name, role in _ROLES.items()}
    found = {name: column for name, column in chosen.items() if column is not None}
    if "body" not in found:
        raise ConfigError("the rows have no column body; set option('bodyColumn', …)")
    _check_selector(options.selector, found)
    _check_all_used(found, types)
    for name, column in found.items():
        _check_type(_ROLES[name], column, types[column])
    _check_numeric(options.selector, found, types)
    return Roles(**found)


def _column(role: _Role, options: WriteOptions, types: Mapping[str, str]) -> str | None:
    given = options.columns.get(role.option)
    if given is not None and given not in types:
        raise ConfigError(
            f"{role.option}={given!r}: the rows have no such column, only {', '.join(types)}"
        )
    free = role.usual in types and role.usual not in options.columns.values()
    return given or (role.usual if free else None)


def _check_selector(selector: str, found: Mapping[str, str]) -> None:
    if selector == ROUND_ROBIN:
        useless = [name for name in ("key", "order") if name in found]
        if useless:
            raise ConfigError(
                f"round_robin keeps no order, but the rows have {found[useless[0]]!r} as"
                f" {_ROLES[useless[0]].option}: use hash_mod, or leave the column out"
            )
        if "id" not in found:
            raise ConfigError(
                "round_robin needs option('idColumn', …): without key and orderBy there is"
                " nothing else to recognise a repeated message by"
            )
        return
    if selector in KEYED and "key" not in found:
        raise ConfigError(
            f"{selector} needs a key, but the rows have no column sharding_key; set"
            " option('keyColumn', …), or selector=round_robin for rows without an order"
        )
    if "order" not in found:
        raise ConfigError(
            "set option('orderBy', …): the column that numbers the rows of a key. Spark's rows"
            " have no order of their own"
        )


def _check_all_used(found: Mapping[str, str], types: Mapping[str, str]) -> None:
    unused = [name for name in types if name not in found.values()]
    if unused:
        raise ConfigError(
            f"column {', '.join(unused)} would not be sent: leave it out by select(), or name it"
            f" in an option ({', '.join(role.option for role in _ROLES.values())})"
        )


def _check_type(role: _Role, column: str, kind: str) -> None:
    if kind not in role.types:
        raise ConfigError(
            f"column {column!r} is {kind}; {role.option} takes {', '.join(role.types)}: cast it"
        )


def _check_numeric(selector: str, found: Mapping[str, str], types: Mapping[str, str]) -> None:
    if selector == "numeric_mod" and types[found["key"]] not in _INTEGERS:
        raise ConfigError(
            f"numeric_mod needs a key that is an integer; {found['key']!r} is"
            f" {types[found['key']]}: cast it, or use hash_mod"
        )


# --- the plan -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One write, ready to be done by any number of tasks. Picklable, without secrets.

    Attributes:
        access: how to reach the cluster.
        topic: where to, with its namespace.
        layout: the pin that all tasks send by; "loose": each by the route it finds.
        selector: one of `options.SELECTORS`.
        roles: of the columns.
        max_batch_bytes: of one request.
    """

    access: Access
    topic: str
    layout: str
    selector: str
    roles: Roles
    max_batch_bytes: int


_log = get_logger("orderly.spark")


def make_plan(options: WriteOptions, types: Mapping[str, str]) -> WritePlan:
    """Find out what all tasks need to know.

    Args:
        options: of the write.
        types: of the rows' columns, by name, as Spark writes them.

    Raises:
        ConfigError: columns that do not fit, or no name server is named.
        TopicNotFound, RouteError, NameServerUnavailable: the topic cannot be sent to.
        LayoutChanged: its queues are not those of the pin given.
    """
    roles = assign_roles(options, types)
    with options.access.client() as client:
        topic = wrap(client.config.namespace, options.topic)
        layout = _pinned_layout(client, topic, options.layout)
    return WritePlan(
        options.access, topic, layout, options.selector, roles, options.max_batch_bytes
    )


def check_write(options: WriteOptions, types: Mapping[str, str] | None = None) -> None:
    """Refuse what cannot be written, before Spark reads a row: it plans a write after a shuffle.

    What may pass until then is not refused: a broker or a name server that is away.

    Args:
        options: of the write.
        types: of the rows' columns, by name, as Spark writes them; None: not known yet.

    Raises:
        ConfigError: columns that do not fit, or no name server is named.
        TopicNotFound: there is no such topic.
    """
    if types is not None:
        assign_roles(options, types)
    with options.access.client() as client, suppress(RouteError, NameServerUnavailable):
        topic = wrap(client.config.namespace, options.topic)
        Topics(client.routes, LOOSE, _log).queues(topic, ordered=False)


def _pinned_layout(client: Client, topic: str, layout: str) -> str:
    """The layout that all tasks send by: keys of two tasks must not count different queues."""
    queues = Topics(client.routes, layout, _log).queues(topic, ordered=True)
    if layout == LOOSE:
        return LOOSE
    brokers = groupby(queue.broker_name for queue in queues)
    return str(Layout(tuple((name, len(list(same))) for name, same in brokers)))
