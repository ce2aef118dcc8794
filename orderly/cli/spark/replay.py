"""`orderly spark replay`: part of a table into a topic, in each key's order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.selection import complete_topic
from orderly.cli.spark.here import connection
from orderly.cli.spark.options import Job, job_options
from orderly.errors import ConfigError
from orderly.selectors.rules import KEYED

if TYPE_CHECKING:
    from orderly.spark.jobs.replay.result import ReplayResult
    from orderly.spark.jobs.replay.selection import Selection

EXAMPLES = """\b
Examples:
  orderly spark replay /data/orders --into orders-again --from 2026-11-20T08:00:00Z
  orderly spark replay /data/orders --into orders-again --key o-17 --key o-18 --send --out replay-1
  orderly spark replay /data/orders --into orders-mended --places failed.parquet
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("table")
@click.option(
    "--into",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Where to send it.",
)
@click.option(
    "--from",
    "start",
    default="",
    metavar="WHERE",
    help='A time of storing, or offsets as JSON: {"TOPIC": {"BROKER": {"0": 123}}}.',
)
@click.option("--to", "end", default="", metavar="WHERE", help="As --from; itself not included.")
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Only this key; may be given again."
)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only the keys in this file, one a line.",
)
@click.option(
    "--places",
    default="",
    metavar="TABLE",
    help="Only the messages whose topic, broker, queue_id and queue_offset are in this Parquet"
    " table.",
)
@click.option("--send", is_flag=True, help="Send. Without it nothing is sent.")
@click.option(
    "--after-consumed",
    is_flag=True,
    help="Send although groups have consumed later messages of these keys.",
)
@click.option("--skip-keyless", is_flag=True, help="Leave out messages without a sharding key.")
@click.option(
    "--selector",
    type=click.Choice([*KEYED, "single_queue"]),
    default="hash_mod",
    show_default=True,
    help="Which queue for a key: that of the topic's producers.",
)
@redact_option
@job_options(topic=False)
@click.pass_context
def replay(
    ctx: click.Context, /, *, table: str, into: str, job: Job, send: bool, **wanted: Any
) -> int:
    """Tell what of TABLE would go into a topic; with --send, send it.

    TABLE is any with the source's columns topic, broker, queue_id, queue_offset, sharding_key,
    store_ts and body (and tag, keys, properties), such as a stream writes to Parquet.

    A key's messages go in their old order; a key that lay in several queues is merged by store
    time. Each carries its old place as the property ORDERLY_ID. With --send, --out DIR is needed:
    a replay that breaks off is gone on with by the same command, and sends only what is not there.

    Into the topic that the messages came from only if no group has consumed later messages of
    their keys, or with --after-consumed. If messages are missing at the end, the same command looks
    again, and sends those.
    """
    redact = wanted.pop("redact_keys") is not None
    options = {name: wanted.pop(name) for name in ("after_consumed", "skip_keyless", "selector")}
    with job.running(ctx, "replay", output=False) as here:
        from orderly.spark.jobs.replay.run import ReplaySettings, run  # noqa: PLC0415  pyspark

        settings = ReplaySettings(
            table,
            here.settings.topic(into),
            connection(here.settings),
            _selection(**wanted),
            job.out,
            send=send,
            table_format=job.table_format,
            overwrite=job.overwrite,
            redact=redact,
            **options,
        )
        result = run(here.spark, settings, here.progress)
        return here.tell(result.verdict, result.headline, answer(result))


def _selection(
    *, start: str, end: str, keys: tuple[str, ...], keys_file: Path | None, places: str
) -> Selection:
    from orderly.spark.jobs.replay.selection import Selection  # noqa: PLC0415  pyspark
    from orderly.spark.offsets.text import loads  # noqa: PLC0415  as above
    from orderly.spark.options.positions import parse_moment  # noqa: PLC0415  as above

    given: dict[str, Any] = {}
    for text, option, moment, offsets in (
        (start, "--from", "since", "start"),
        (end, "--to", "until", "end"),
    ):
        if text.startswith("{"):
            given[offsets] = loads(text, option)
        elif text:
            given[moment] = parse_moment(text, option).millis / 1000
    lines = keys_file.read_text("utf-8").splitlines() if keys_file else []
    wanted = tuple(dict.fromkeys([*keys, *filter(None, lines)]))
    if keys_file and not wanted:  # "no keys" is "all keys" to those who do not say any
        raise ConfigError(f"--keys {keys_file} names no key, so nothing is to be replayed")
    return Selection(**given, keys=wanted, places=places)


def answer(result: ReplayResult) -> Answer:
    """The most frequent keys."""
    names = ("FIRST OFFSET", "LAST OFFSET")
    columns = [Column("KEY"), Column("MESSAGES", Kind.COUNT), Column("QUEUES", Kind.COUNT),
               Column("QUEUE"), *(Column(name, Kind.COUNT) for name in names)]  # fmt: skip
    rows = [
        (
            it.key,
            it.messages,
            it.queues,
            it.queue if it.queues == 1 else f"{it.queue}, …",
            it.first_offset if it.queues == 1 else None,
            it.last_offset if it.queues == 1 else None,
        )
        for it in result.keys[:20]
    ]
    return Answer(columns, rows, document=lambda: result.document)
