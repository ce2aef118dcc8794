"""The options of the source, as a table: the one place that knows their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orderly.config import MIB
from orderly.protocol.heartbeat import ALL_TAGS
from orderly.spark.offsets.text import loads_queues
from orderly.spark.options import values
from orderly.spark.options.positions import parse_moment

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


_COUNT = values.whole(1, 10**12)

OPTIONS: tuple[Option, ...] = (
    Option(
        "namesrv",
        values.text,
        "",
        "name servers, `host:port;host:port`; else those of `settingsFile` or `ORDERLY_NAMESRV`",
    ),
    Option(
        "settingsFile",
        values.text,
        "",
        "path of the settings file (TOML) with name servers, access key and TLS; read on the"
        " driver and on each worker, so that no secret is an option",
    ),
    Option("settingsContext", values.text, "", "a context of that file; else its current one"),
    Option("topic", values.topic, "", "the topic to read"),
    Option("topics", values.topics, "", "several topics, between commas"),
    Option(
        "topicPattern",
        values.pattern,
        "",
        "all topics whose whole name matches this regular expression (Python's); a stream takes"
        " in new ones as they appear",
    ),
    Option("assign", loads_queues, "", 'only these queues: `{"topic": {"broker": [0, 1]}}`'),
    Option(
        "startingOffsets",
        values.start,
        "batch: `earliest`; stream: `latest`",
        "where to begin: `earliest`, `latest`, `group:NAME` (what that group has committed), or"
        ' `{"topic": {"broker": {"0": 123}}}` with -2 for the oldest message and -1 for the end;'
        " a queue not named begins with its oldest message. A stream with a checkpoint goes on"
        " from there instead",
    ),
    Option(
        "startingTimestamp",
        parse_moment,
        "",
        "begin with the first message stored at or after this time: ISO 8601 (without an offset: by"
        " the driver's clock), or milliseconds since the epoch",
    ),
    Option(
        "endingOffsets",
        values.end,
        "`latest`",
        "where to end; this offset itself is not read. As `startingOffsets`, but a queue not"
        " named is read to its end",
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
        "one a queue",
        "at least so many tasks: queues are cut in proportion to their messages",
    ),
    Option(
        "maxOffsetsPerTrigger",
        _COUNT,
        "no limit",
        "messages in a batch of a stream, divided in proportion to what waits in each queue; a"
        " queue with messages gives one at least",
        STREAM,
    ),
    Option(
        "failOnDataLoss",
        values.truth,
        "`true`",
        "whether it is an error that messages to be read are gone (expired, cut off) or never"
        " were (offsets beyond the end); `false`: a warning with their number",
    ),
    Option("tags", values.tags, f"`{ALL_TAGS}`", "only messages with one of these tags: `A || B`"),
    Option(
        "columns",
        values.columns,
        "all but `properties`",
        "the columns wanted, between commas; giving a schema does the same",
    ),
    Option("includeProperties", values.truth, "`false`", "also the column `properties`"),
    Option(
        "seqProperty",
        values.text,
        "",
        "the message property with the event's number, for the column `seq`",
    ),
    Option(
        "pushdown",
        values.truth,
        "`false`",
        "let conditions on topic, broker, queue, offset, store time, tag and key shorten what is"
        " read; needs `spark.sql.python.filterPushdown.enabled=true`",
        BATCH,
    ),
    Option(
        "emit",
        values.one_of("rows", "summary"),
        "`rows`",
        "`rows`: messages; `summary`: what their order is judged by, in one row for each key and"
        " stretch of a queue",
    ),
    Option(
        "pullBatchSize",
        values.whole(1, 4096),
        "`512`",
        "messages asked for at once; a broker gives 32 unless it is configured to give more",
    ),
    Option("pullDepth", values.whole(1, 64), "`8`", "pulls in flight of one task"),
    Option(
        "batchBytes",
        values.whole(64 * 1024, 64 * MIB),
        f"`{MIB}`",
        "bytes of stored messages that an Arrow batch is made of",
    ),
    Option(
        "groupIdPrefix",
        values.group,
        "`orderly-spark`",
        "the group that the broker counts the pulls for; it is never joined and nothing is"
        " committed for it",
    ),
)
