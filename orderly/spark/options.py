"""The options of source and sink: two tables with their names, and reading what a user gave.

Spark hands names on in lower case, so they are compared without regard to case. What is wrong is
refused before anything is asked of a broker. Checked options are picklable and hold no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from orderly.config import MIB, check_group, check_topic
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import ALL_TAGS, Subscription
from orderly.selectors import KEYED, parse_layout
from orderly.spark.access import Access
from orderly.spark.columns import DEFAULT_COLUMNS, arrow_schema
from orderly.spark.offsets import (
    Edge,
    GroupPosition,
    Position,
    TimePosition,
    load_queues,
    parse_moment,
    parse_offsets,
)


def as_text(given: str, name: str) -> str:  # noqa: ARG001  all have one shape
    """Any text, without blanks around it."""
    return given.strip()


def as_bool(given: str, name: str) -> bool:
    """True or false."""
    try:
        return {"true": True, "false": False}[given.strip().lower()]
    except KeyError as error:
        raise ConfigError(f"{name}={given!r} must be true or false") from error


def whole_number(low: int, high: int) -> Callable[[str, str], int]:
    """A whole number from `low` to `high`."""

    def read(given: str, name: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", given.strip()) or not low <= int(given) <= high:
            raise ConfigError(f"{name}={given!r} must be a whole number from {low} to {high}")
        return int(given)

    return read


def one_of(*choices: str) -> Callable[[str, str], str]:
    """One of some words."""

    def read(given: str, name: str) -> str:
        word = given.strip().lower()
        if word not in choices:
            raise ConfigError(f"{name}={given!r} must be one of {', '.join(choices)}")
        return word

    return read


def as_topic(given: str, name: str) -> tuple[str, ...]:  # noqa: ARG001
    """The name of one topic."""
    return (check_topic(given.strip()),)


def as_group(given: str, name: str) -> str:  # noqa: ARG001
    """The name of a consumer group."""
    return check_group(given.strip())


def as_topics(given: str, name: str) -> tuple[str, ...]:
    """Names of topics."""
    return tuple(check_topic(word) for word in as_words(given, name))


def as_columns(given: str, name: str) -> tuple[str, ...]:
    """Names of columns."""
    names = as_words(given, name)
    arrow_schema(names)
    return names


def as_words(given: str, name: str) -> tuple[str, ...]:
    """Words between commas."""
    found = tuple(word.strip() for word in given.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise ConfigError(f"{name}={given!r} must be names between commas, none of them twice")
    return found


def as_pattern(given: str, name: str) -> str:
    """A regular expression."""
    try:
        re.compile(given)
    except re.error as error:
        raise ConfigError(f"{name}={given!r} is not a regular expression: {error}") from error
    return given


def as_tags(given: str, name: str) -> str:  # noqa: ARG001
    """Tags between "||", or "*"."""
    return Subscription.from_expression("any", given, 0).expression


def as_start(given: str, name: str) -> Position:
    """A position to begin at: queues not named begin with their oldest message."""
    return parse_offsets(given, name, others=Edge.EARLIEST)


def as_end(given: str, name: str) -> Position:
    """A position to end at: queues not named are read to their end."""
    return parse_offsets(given, name, others=Edge.LATEST)


# --- the options of the source --------------------------------------------------------------------


BATCH, STREAM = "batch", "stream"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the source.

    Attributes:
        name: as users write it; Spark compares without regard to case.
        read: turns (text, name) into its value, or raises ConfigError.
        default: as a user would write it, or in words; "": none.
        about: what it does, for the documentation.
        only: the kind of read it is for; "": both.
    """

    name: str
    read: Callable[[str, str], Any]
    default: str
    about: str
    only: str = ""


_COUNT = whole_number(1, 10**12)

SOURCE_OPTIONS: tuple[Option, ...] = (
    Option(
        "namesrv",
        as_text,
        "",
        "name servers, `host:port;host:port`; else those of `settingsFile` or `ORDERLY_NAMESRV`",
    ),
    Option(
        "settingsFile",
        as_text,
        "",
        "path of the settings file (TOML) with name servers, access key and TLS; read on the"
        " driver and on each worker, so that no secret is an option",
    ),
    Option(
        "settingsContext",
        as_text,
        "",
        "a context in that file; default: the file's current context",
    ),
    Option("topic", as_topic, "", "the topic to read"),
    Option("topics", as_topics, "", "several topics, separated by commas"),
    Option(
        "topicPattern",
        as_pattern,
        "",
        "all topics whose whole name matches this regular expression (Python's). A stream also"
        " reads matching topics that appear later",
    ),
    Option("assign", load_queues, "", 'only these queues: `{"topic": {"broker": [0, 1]}}`'),
    Option(
        "startingOffsets",
        as_start,
        "batch: `earliest`; stream: `latest`",
        "where to begin: `earliest`, `latest`, `group:NAME` (that group's committed offsets; the"
        " oldest message of a queue in which it has committed nothing), or"
        ' `{"topic": {"broker": {"0": 123}}}` with -2 for the oldest message and -1 for the end.'
        " A queue that is not named begins with its oldest message. A stream that has a checkpoint"
        " continues from the checkpoint instead",
    ),
    Option(
        "unknownGroup",
        one_of("error", "earliest", "latest"),
        "`error`",
        "where to begin with `group:NAME` if the topic has messages and that group has committed"
        " nothing in it: `earliest`, `latest`, or `error`, because the name can be misspelt",
    ),
    Option(
        "startingTimestamp",
        parse_moment,
        "",
        "begin with the first message stored at or after this time: ISO 8601 (without an offset: in"
        " the driver's time zone), or milliseconds since the epoch",
    ),
    Option(
        "endingOffsets",
        as_end,
        "`latest`",
        "where to end; the message at this offset is not read. The forms are those of"
        " `startingOffsets`, but a queue that is not named is read to its end",
        BATCH,
    ),
    Option(
        "endingTimestamp",
        parse_moment,
        "",
        "end before the first message stored at or after this time",
        BATCH,
    ),
    Option(
        "minPartitions",
        _COUNT,
        "one for each queue",
        "the least number of tasks; queues are divided in proportion to their messages",
    ),
    Option(
        "maxOffsetsPerTrigger",
        _COUNT,
        "no limit",
        "the most messages in a batch of a stream. Queues share them in proportion to the messages"
        " that wait; each queue with messages gives at least one",
        STREAM,
    ),
    Option(
        "failOnDataLoss",
        as_bool,
        "`true`",
        "`true`: an error if messages of the range are gone (expired, cut off) or never existed"
        " (offsets beyond the end); `false`: a warning with their number",
    ),
    Option("tags", as_tags, f"`{ALL_TAGS}`", "only messages with one of these tags: `A || B`"),
    Option(
        "columns",
        as_columns,
        "all but `properties`, `attempt` and `body_sum`",
        "the columns that you want, separated by commas; you can give a schema instead",
    ),
    Option("includeProperties", as_bool, "`false`", "also the column `properties`"),
    Option(
        "seqProperty",
        as_text,
        "",
        "the message property that holds the event's number, for the column `seq`",
    ),
    Option(
        "pushdown",
        as_bool,
        "`false`",
        "read less if the query has conditions on topic, broker, queue, offset, store time, tag or"
        " key; needs `spark.sql.python.filterPushdown.enabled=true`",
        BATCH,
    ),
    Option(
        "emit",
        one_of("rows", "summary"),
        "`rows`",
        "`rows`: messages; `summary`: one row for each key and stretch of a queue, with the data"
        " from which the audit judges the order",
    ),
    Option(
        "pullBatchSize",
        whole_number(1, 4096),
        "`512`",
        "how many messages one pull asks for; a broker sends 32 unless its settings allow more",
    ),
    Option(
        "pullDepth", whole_number(1, 64), "`8`", "how many pulls of one task are in flight at once"
    ),
    Option(
        "batchBytes",
        whole_number(64 * 1024, 64 * MIB),
        f"`{4 * MIB}`",
        "bytes of stored messages in one Arrow batch",
    ),
    Option(
        "groupIdPrefix",
        as_group,
        "`orderly-spark`",
        "the group under which the broker counts the pulls; it never has a member, and nothing is"
        " committed for it",
    ),
)


_SECRET = re.compile("secret|password|token|access_?key", re.IGNORECASE)


def find_option(name: str, options: Iterable[Option]) -> Option:
    """The option of that name, in upper or lower case.

    Args:
        name: as given.
        options: those that there are.

    Raises:
        ConfigError: no such option; the text names the one that was probably meant.
    """
    known = {option.name.lower(): option for option in options}
    found = known.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), known, n=1)
        raise ConfigError(_unknown(name, [known[key].name for key in near], known.values()))
    return found


def _unknown(name: str, near: list[str], options: Iterable[Option]) -> str:
    if _SECRET.search(name):
        return (
            f"{name} is no option: options end up in plans, logs and checkpoints. Put secrets into"
            " the file that settingsFile names, or into the environment (ORDERLY_ACCESS_KEY, …)"
        )
    if name.lower() == "path":
        return "there is nothing at a path here: name the topic, as in option('topic', 'orders')"
    if near:
        return f"there is no option {name}; did you mean {near[0]}?"
    return f"there is no option {name}; there are {', '.join(option.name for option in options)}"


# --- reading the options of the source ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How ranges are read.

    Attributes:
        columns: names of `orderly.spark.columns`, in the order wanted.
        seq_property: the property that column `seq` is read from; empty: none.
        tags: "*", or "A || B": the broker compares hashes, the reader the tags themselves.
        pull_batch: messages asked for at once; a broker gives 32 unless configured to give more.
        pull_depth: pulls in flight.
        batch_bytes: of stored messages, that a record batch is made of.
        fail_on_data_loss: whether messages that are gone are an error.
        group_prefix: the group that pulls are counted for; a broker makes it at the first pull.
        only: by column, the texts that rows may have; those of other rows are left out.
    """

    columns: tuple[str, ...]
    seq_property: str = ""
    tags: str = ALL_TAGS
    pull_batch: int = 512
    pull_depth: int = 8
    batch_bytes: int = 4 * MIB
    fail_on_data_loss: bool = True
    group_prefix: str = "orderly-spark"
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)


_SELECTING = ("topic", "topics", "topicPattern", "assign")


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """What is read: topics by name or by a pattern, or certain queues."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    queues: frozenset[MessageQueue] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, checked. Picklable, without secrets.

    Attributes:
        selection: topics or queues.
        start, end: where to begin and to end in each queue.
        namesrv, settings_file, settings_context: how to reach the cluster; "" where not given.
        min_partitions: 1: nobody asked for more than one a queue.
        max_offsets_per_trigger: None: no limit.
        fail_on_data_loss, pushdown: see the table.
        summary: whether rows are summaries, not messages.
        columns: read if the user gives no schema.
        columns_given: whether they were chosen by option.
        scan: what the readers of ranges need; its columns are `columns`.
    """

    selection: TopicSelection
    start: Position
    end: Position
    namesrv: str
    settings_file: str
    settings_context: str
    min_partitions: int
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    pushdown: bool
    summary: bool
    columns_given: bool
    scan: ScanOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns read if the user gives no schema."""
        return self.scan.columns


def parse_read(given: Mapping[str, str], kind: str = BATCH) -> ReadOptions:
    """Read the options of a read.

    Args:
        given: as Spark hands them on, or as a user writes them.
        kind: BATCH or STREAM; "": not known yet.

    Raises:
        ConfigError: an option that there is not, a value that it can't have, or options that
            exclude each other.
    """
    values = {_option_of(name, kind).name: text for name, text in given.items()}
    found = {name: _option_of(name, kind).read(text, name) for name, text in values.items()}
    summary = found.get("emit") == "summary"
    _check_together(found, summary=summary)
    return ReadOptions(
        selection=_selection(found),
        start=_position(found, "starting", Edge.LATEST if kind == STREAM else Edge.EARLIEST),
        end=_position(found, "ending", Edge.LATEST),
        namesrv=found.get("namesrv", ""),
        settings_file=found.get("settingsFile", ""),
        settings_context=found.get("settingsContext", ""),
        min_partitions=found.get("minPartitions", 1),
        max_offsets_per_trigger=found.get("maxOffsetsPerTrigger"),
        fail_on_data_loss=found.get("failOnDataLoss", True),
        pushdown=found.get("pushdown", False),
        summary=summary,
        columns_given="columns" in found,
        scan=_scan(found),
    )


def _option_of(name: str, kind: str) -> Option:
    option = find_option(name, SOURCE_OPTIONS)
    if kind and option.only not in ("", kind):
        raise ConfigError(f"option {option.name} is for {option.only} reads only; leave it out")
    return option


def _check_together(found: Mapping[str, Any], *, summary: bool) -> None:
    columns = [name for name in ("columns", "includeProperties", "pushdown") if found.get(name)]
    if summary and columns:
        raise ConfigError(f"emit=summary has columns of its own; leave {', '.join(columns)} out")
    if found.get("includeProperties") and "properties" not in found.get("columns", ["properties"]):
        raise ConfigError(
            "columns leaves out properties, but includeProperties asks for them; drop"
            " includeProperties, or add properties to columns"
        )
    start, end = found.get("startingTimestamp"), found.get("endingTimestamp")
    if start and end and start.millis > end.millis:
        raise ConfigError("endingTimestamp is before startingTimestamp; swap them")


def _selection(found: Mapping[str, Any]) -> TopicSelection:
    chosen = [name for name in _SELECTING if name in found]
    if len(chosen) != 1:
        raise ConfigError(
            f"give one of the options {', '.join(_SELECTING)}, not"
            f" {' and '.join(chosen) or 'none of them'}"
        )
    if chosen == ["assign"]:
        queues = found["assign"]
        return TopicSelection(tuple(sorted({queue.topic for queue in queues})), queues=queues)
    if chosen == ["topicPattern"]:
        return TopicSelection(pattern=found["topicPattern"])
    return TopicSelection(found[chosen[0]])


def _position(found: Mapping[str, Any], which: str, default: Edge) -> Position:
    offsets: Position | None = found.get(f"{which}Offsets")
    moment: TimePosition | None = found.get(f"{which}Timestamp")
    if offsets is not None and moment is not None:
        raise ConfigError(f"give {which}Offsets or {which}Timestamp, not both")
    if isinstance(offsets, GroupPosition) and found.get("unknownGroup", "error") != "error":
        return replace(offsets, unknown=Edge(found["unknownGroup"]))
    return moment or offsets or default


def _scan(found: Mapping[str, Any]) -> ScanOptions:
    columns = DEFAULT_COLUMNS + (("properties",) if found.get("includeProperties") else ())
    fields = {field: found[name] for name, field in _SCAN_FIELDS.items() if name in found}
    return ScanOptions(**({"columns": columns} | fields))


_SCAN_FIELDS = {
    "columns": "columns",
    "seqProperty": "seq_property",
    "tags": "tags",
    "pullBatchSize": "pull_batch",
    "pullDepth": "pull_depth",
    "batchBytes": "batch_bytes",
    "failOnDataLoss": "fail_on_data_loss",
    "groupIdPrefix": "group_prefix",
}


# --- the options of the sink ----------------------------------------------------------------------


KIB = 1024
SELECTORS = (*KEYED, "single_queue", "round_robin")
_CONNECTING = ("namesrv", "settingsFile", "settingsContext")

SINK_OPTIONS: tuple[Option, ...] = (
    *(option for option in SOURCE_OPTIONS if option.name in _CONNECTING),
    Option("topic", as_topic, "", "the topic to send to; it must exist"),
    Option(
        "selector",
        one_of(*SELECTORS),
        "`hash_mod`",
        "which queue a key goes to: `hash_mod` (Java's SelectMessageQueueByHash), `numeric_mod`"
        " (the key is a number), `proxy_hash`, `cpp_hash_mod`, `go_hash_mod` (as producers in other"
        " languages, [placement](../how-to/placement.md)), `single_queue` (all rows in one order),"
        " `round_robin` (no key, no order)",
    ),
    Option(
        "keyColumn",
        as_text,
        "`sharding_key`",
        "the sharding key, a string or an integer: rows with equal keys keep their order",
    ),
    Option(
        "orderBy",
        as_text,
        "",
        "the column that orders the rows of a key: an integer, date or timestamp that rises from"
        " row to row. All selectors but `round_robin` need it",
    ),
    Option("bodyColumn", as_text, "`body`", "the message itself, binary or string"),
    Option("tagColumn", as_text, "`tag`, if there", "the message's tag, or null"),
    Option(
        "keysColumn",
        as_text,
        "`keys`, if there",
        "words for the index, separated by spaces, or null",
    ),
    Option(
        "propertiesColumn",
        as_text,
        "`properties`, if there",
        "further properties, a map of strings; RocketMQ's own names are refused",
    ),
    Option(
        "idColumn",
        as_text,
        "",
        "a column with a unique id for each row, by which a repeated message is recognised. Without"
        " it a hash of key, `orderBy` and body is used, and a key's `orderBy` may not repeat",
    ),
    Option(
        "layout",
        as_text,
        "`strict`",
        "`strict` (all tasks of a write use the layout that the driver saw), a pin such as"
        " `broker-a:8;broker-b:8` (the same for all producers of the topic), or `loose` (each task"
        " uses the route that it finds, so keys may change their queue)",
    ),
    Option(
        "maxBatchBytes",
        whole_number(64 * KIB, 4 * MIB),
        f"`{512 * KIB}`",
        "bytes in one request; at most the broker's maxMessageSize",
    ),
)


_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # of a stream; handed on with ours
LOOSE = "loose"
DEFAULT = "hash_mod"
SINGLE_QUEUE, ROUND_ROBIN = "single_queue", "round_robin"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked. Picklable, without secrets.

    Attributes:
        topic: where to.
        access: how to reach the cluster.
        selector: one of SELECTORS.
        layout: "strict", "loose" or a pin.
        max_batch_bytes: of one request.
        columns: by option name, those that were given.
    """

    topic: str
    access: Access
    selector: str
    layout: str
    max_batch_bytes: int
    columns: Mapping[str, str]


def parse_write(given: Mapping[str, str]) -> WriteOptions:
    """Read the options of a write.

    Args:
        given: as Spark hands them on, or as a user writes them.

    Raises:
        ConfigError: an option that there is not, a value that it can't have, or no topic.
    """
    found = {}
    for name, text in given.items():
        if name.lower() in _SPARKS_OWN:
            continue
        option = find_option(name, SINK_OPTIONS)
        found[option.name] = option.read(text, option.name)
    if "topic" not in found:
        raise ConfigError("a write needs option('topic', …): where to send the rows")
    return WriteOptions(
        topic=found["topic"][0],
        access=Access(
            found.get("namesrv", ""),
            found.get("settingsFile", ""),
            found.get("settingsContext", ""),
        ),
        selector=found.get("selector", DEFAULT),
        layout=_layout(found),
        max_batch_bytes=found.get("maxBatchBytes", 512 * KIB),
        columns={name: found[name] for name in _COLUMNS if found.get(name)},
    )


_COLUMNS = [o.name for o in SINK_OPTIONS if o.name.endswith("Column") or o.name == "orderBy"]


def _layout(found: Mapping[str, Any]) -> str:
    text: str = found.get("layout", "strict")
    if text not in ("strict", LOOSE):
        parse_layout(text)
    return text


def access_of(options: ReadOptions) -> Access:
    """What a read's options say about it."""
    return Access(options.namesrv, options.settings_file, options.settings_context)
