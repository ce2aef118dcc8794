"""The options that all jobs have, gathered as one argument `job`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from orderly.cli.formats import Format
from orderly.cli.gathering import gathered
from orderly.cli.pairs import pairs
from orderly.cli.selection import complete_topic
from orderly.cli.settings import common_options, settings_of
from orderly.cli.spark.here import Here, here_for

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Job:
    """What the options of a job say.

    Attributes:
        topic: as the user names it; "" for a job that reads none.
        start, end: --from and --to.
        options: of the source, beside those.
        out: the directory for results; "": none.
        table_format: of tables there.
        overwrite: whether an earlier output may be replaced.
        master: of Spark; None: local[*], or what spark-submit says.
        conf: settings of Spark.
        form: how to print what was found.
        quiet: whether to tell no progress.
    """

    topic: str
    start: str
    end: str
    options: Mapping[str, str]
    out: str
    table_format: str
    overwrite: bool
    master: str | None
    conf: Mapping[str, str]
    form: Format
    quiet: bool

    @contextmanager
    def running(self, ctx: click.Context, name: str, *, output: bool = True) -> Iterator[Here]:
        """A Spark session and all that a job takes besides.

        Args:
            ctx: of the command.
            name: of the job.
            output: whether --out is a job's output; if not, the job does something of its own with
                `out`, and `here.output` is None.

        Raises:
            ConfigError: no pyspark, no Java, or a directory that cannot be taken.
            OrderlyError: Spark failed; what of ours was the cause stands in the text.
        """
        with here_for(self, settings_of(ctx), name, output=output) as here:
            yield here

    def source(self) -> dict[str, str]:
        """What start, end and options are as options of the source."""
        found = dict(self.options)
        for text, edge in ((self.start, "starting"), (self.end, "ending")):
            if text:
                found[edge + ("Timestamp" if _MOMENT.match(text) else "Offsets")] = text
        return found


_MOMENT = re.compile(r"\d")  # ISO 8601, or milliseconds: nothing else begins with a digit


def job_options(*, topic: bool = True) -> Callable[[F], F]:
    """Add what all jobs take, as the argument `job` (see `Job`), and the common options.

    Args:
        topic: whether the job reads one: --topic, --from, --to and --option.
    """
    options = [*(_READING if topic else ()), *_WRITING, *_RUNNING]

    def add(command: F) -> F:
        names = [name for name in _NAMES if topic or name not in _OF_TOPICS]
        return gathered(common_options(command), options, names, _maker(names), "job")

    return add


def _maker(names: list[str]) -> Callable[..., Job]:
    def make(*values: Any) -> Job:
        given = {**dict.fromkeys(_OF_TOPICS, ""), **dict(zip(names, values, strict=True))}
        given["form"] = Format(given.pop("output"), headers=True, raw=False)
        for name, option in (("options", "--option"), ("conf", "--conf")):
            given[name] = pairs(option, given[name] or ())
        return Job(**given)

    return make


_OF_TOPICS = ("topic", "start", "end", "options")
_NAMES = (
    *_OF_TOPICS, "out", "table_format", "overwrite", "master", "conf", "output", "quiet",
)  # fmt: skip
_READING = (
    click.option(
        "-t",
        "--topic",
        required=True,
        metavar="TOPIC",
        shell_complete=complete_topic,
        help="What to read.",
    ),
    click.option(
        "--from",
        "start",
        default="",
        metavar="WHERE",
        help="Where to begin: earliest, latest, group:NAME, a time (2026-11-21T08:00:00Z), or"
        ' offsets as JSON: {"TOPIC": {"BROKER": {"0": 123}}}. Default: earliest.',
    ),
    click.option(
        "--to",
        "end",
        default="",
        metavar="WHERE",
        help="As --from; the message itself is not read. Default: latest, as of the start.",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Of the source, as in minPartitions=64 or failOnDataLoss=false; may be given again.",
    ),
)
_WRITING = (
    click.option(
        "--out",
        default="",
        metavar="DIR",
        help="Leave tables, report.html and result.json here: a path, or hdfs://…, s3a://….",
    ),
    click.option(
        "--format",
        "table_format",
        type=click.Choice(["parquet", "delta"]),
        default="parquet",
        show_default=True,
        help="Of the tables.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace an earlier output in DIR."),
)
_RUNNING = (
    click.option(
        "--master",
        metavar="URL",
        help="Of Spark. Default: what spark-submit says, else SPARK_MASTER, else local[*].",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark, as in spark.driver.memory=4g; may be given again.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="How to print it.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Tell no progress."),
)
