"""`orderly spark`: jobs over topics, on this machine or on a cluster.

Nothing here imports pyspark before a job runs: `--help` needs neither it nor Java.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import gathered, pairs
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.redacting import redact_option
from orderly.cli.selection import complete_topic, topic_argument
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import say, tell
from orderly.errors import ConfigError, OrderlyError
from orderly.extras import install
from orderly.monitoring.backlog.ranges import seconds_of
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Column, ColumnKind
from orderly.selectors.choice import KEYED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orderly.spark.jobs.audit.run import AuditResult
    from orderly.spark.jobs.output import Output
    from orderly.spark.jobs.progress import Progress
    from orderly.spark.jobs.replay.report import ReplayResult
    from orderly.spark.jobs.replay.selection import ReplaySelection


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Job:
    """What the options of a job say.

    Attributes:
        topic: as the user names it; "" for a job that reads none.
        start, end: --from and --until.
        options: of the source, beside those.
        out: the directory for results; "": none.
        table_format: of tables there.
        overwrite: whether an earlier output may be replaced.
        master: of Spark; None: local[*], or what spark-submit says.
        conf: settings of Spark.
        form: how to print what was found.
        quiet: whether to print no progress.
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
    def running(
        self, ctx: click.Context, name: str, *, output: bool = True
    ) -> Iterator[JobContext]:
        """A Spark session and all that a job takes besides.

        Args:
            ctx: of the command.
            name: of the job.
            output: whether --out is a job's output; if not, the job does something of its own with
                `out`, and `here.output` is None.

        Raises:
            ConfigError: no pyspark, no Java, or a directory that cannot be taken.
            OrderlyError: Spark failed; the text has this library's error if that was the cause.
        """
        with job_context(self, settings_of(ctx), name, output=output) as here:
            yield here

    def source(self) -> dict[str, str]:
        """What start, end and options are as options of the source."""
        found = dict(self.options)
        for given, edge in ((self.start, "starting"), (self.end, "ending")):
            if text := _at(given):
                found[edge + ("Timestamp" if _MOMENT.match(text) else "Offsets")] = text
        return found


_MOMENT = re.compile(r"\d")  # ISO 8601, or milliseconds: nothing else begins with a digit
_AGO = re.compile(r"[\d.]+(ms|s|m|h|d)")


def _at(text: str) -> str:
    """What --from and --until say: how long ago as the time in milliseconds, all else as it is."""
    return str(round((time.time() - seconds_of(text)) * 1000)) if _AGO.fullmatch(text) else text


def job_options(*, topic: bool = True) -> Callable[[F], F]:
    """Add what all jobs take, as the argument `job` (see `Job`), and the common options.

    Args:
        topic: whether the job reads one: TOPIC, --from, --until and --option.
    """
    options = [*(_READING if topic else ()), *_WRITING, *_RUNNING]

    def add(command: F) -> F:
        names = [name for name in _NAMES if topic or name not in _OF_TOPICS]
        taken = gathered(common_options(command), options, names, _maker(names), "job")
        return format_options()(taken)

    return add


def _maker(names: list[str]) -> Callable[..., Job]:
    def make(*values: Any) -> Job:
        given = {**dict.fromkeys(_OF_TOPICS, ""), **dict(zip(names, values, strict=True))}
        for name, option in (("options", "--option"), ("conf", "--conf")):
            given[name] = pairs(option, given[name] or ())
        return Job(**given)

    return make


_OF_TOPICS = ("topic", "start", "end", "options")
_NAMES = (
    *_OF_TOPICS, "out", "table_format", "overwrite", "master", "conf", "form", "quiet",
)  # fmt: skip
_READING = (
    topic_argument,
    click.option(
        "--from",
        "start",
        default="",
        metavar="WHERE",
        help="Where to start: earliest, latest, group:NAME, a time (2026-11-21T08:00:00Z, or how"
        ' long ago: 2h), or offsets as JSON: {"TOPIC": {"BROKER": {"0": 123}}}. Default: earliest.',
    ),
    click.option(
        "--until",
        "end",
        default="",
        metavar="WHERE",
        help="Where to stop (not included), written as in --from. Default: the end when the job"
        " starts.",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the Spark source, as in minPartitions=64; may be given again.",
    ),
)
_WRITING = (
    click.option(
        "--out",
        default="",
        metavar="DIR",
        help="Write tables, report.html and result.json here: a path, hdfs://… or s3a://….",
    ),
    click.option(
        "--table-format",
        type=click.Choice(["parquet", "delta"]),
        default="parquet",
        show_default=True,
        help="Format of the tables.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace an earlier output in DIR."),
)
_RUNNING = (
    click.option(
        "--master",
        metavar="URL",
        help="Spark's master. Default: what spark-submit says, else SPARK_MASTER, else local[*].",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A Spark setting, as in spark.driver.memory=4g; may be given again.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print no progress."),
)


# --- what a job's command works with: session, output, progress; and how it ends ------------------
# Spark's errors become one line: what of ours caused them, or Spark's own first line.


EXIT_CODES = {Verdict.OK: 0, Verdict.WARNING: 1, Verdict.CRITICAL: 1, Verdict.UNKNOWN: 3}


@dataclass(frozen=True, slots=True)
class JobContext:
    """A job's surroundings.

    Attributes:
        spark: the session.
        output: where results go; None: nowhere.
        progress: prints steps.
        job: the options.
        settings: what all commands have.
    """

    spark: SparkSession
    output: Output | None
    progress: Progress
    job: Job
    settings: CommonOptions

    @property
    def source(self) -> dict[str, str]:
        """Options for the source, as `discovering.pin` and `source.read` take them.

        Raises:
            ConfigError: no name server is named, or a bad setting.
        """
        topic = {"topic": self.settings.topic(self.job.topic)} if self.job.topic else {}
        return {**connection(self.settings), **topic, **self.job.source()}

    def show_result(self, verdict: Verdict, headline: str, answer: CommandOutput) -> int:
        """Print what was found, and return the exit code."""
        if self.job.form.for_reader:
            tell(f"{verdict.name}: {headline}")
        show(answer, self.job.form, self.settings)
        if self.output is not None:
            say(f"wrote {self.output.path('report.html')}")
        return EXIT_CODES[verdict]


@contextmanager
def job_context(
    job: Job, settings: CommonOptions, name: str, *, output: bool
) -> Iterator[JobContext]:
    """Start what the job needs, and end it; see `Job.running`."""
    if job.topic:  # to say at once what is wrong there, not after Spark has started
        settings.topic(job.topic)
        connection(settings)
    with ExitStack() as stack, spark_errors():
        spark = stack.enter_context(session(job, settings, name))
        from orderly.spark.jobs.output import Output  # noqa: PLC0415  imports pyspark
        from orderly.spark.jobs.progress import progress_on_stderr, silent  # noqa: PLC0415  as above

        results = None
        if output and job.out:
            made = Output(job.out, job.table_format, overwrite=job.overwrite)
            results = stack.enter_context(made)
        progress = silent if job.quiet else progress_on_stderr(spark)
        yield JobContext(spark, results, progress, job, settings)


def connection(settings: CommonOptions) -> dict[str, str]:
    """How Spark's processes reach the brokers: an address, and a file's path for the rest.

    Secrets are no options: workers read them from the same file, or their environment.
    """
    found = {"namesrv": settings.client_config().namesrv}
    file = settings.file()
    if file.content:
        found["settingsFile"] = str(file.path.absolute())
        if name := settings.context or os.environ.get("ORDERLY_CONTEXT"):
            found["settingsContext"] = name
    return found


@contextmanager
def session(job: Job, settings: CommonOptions, name: str) -> Iterator[SparkSession]:
    """The running session, or one that ends with the command."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  an extra, and costs time

        from orderly.spark.session import get_session  # noqa: PLC0415  as above
    except ImportError as error:
        package = (error.name or "pyspark").partition(".")[0]
        raise ConfigError(f"orderly spark needs {package}: {install('cli', 'spark')}") from error
    conf = dict(job.conf)
    if not settings.verbose:
        conf.setdefault("spark.log.level", "ERROR")
    running = SparkSession.getActiveSession()
    found = get_session(f"orderly spark {name}", master=job.master, settings=conf)
    try:
        yield found
    finally:
        if running is None:
            found.stop()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise Spark's errors as ours.

    Raises:
        OrderlyError: in place of an error of Spark.
    """
    try:
        yield
    except OrderlyError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise OrderlyError(cause(str(error))) from error


_OURS = re.compile(r"orderly\.errors\.\w+: (.+)")


def cause(text: str) -> str:
    """What of a Spark error helps the user most: our own error's line, or the first."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return f"Spark failed: {first}; --debug shows all"


# --- `orderly spark audit`: is every key of a topic in order? -------------------------------------


AUDIT_EXAMPLES = """\b
Examples:
  orderly spark audit orders --seq-property version --no-gaps --out report
  orderly spark audit orders --seq-property n --from 2026-11-20T00:00:00Z
"""
_AUDITED = (
    Column("key"),
    *(
        Column(name, ColumnKind.COUNT)
        for name in ("messages", "queues", "inversions", "across", "gaps", "repeats")
    ),
)


@click.command(cls=OrderlyCommand, epilog=AUDIT_EXAMPLES)
@click.option(
    "--seq-property",
    default="",
    metavar="NAME",
    help="The message property that holds the event's number, which rises with each message of a"
    " key. Without it the audit compares the times at which messages were created.",
)
@click.option(
    "--gaps/--no-gaps",
    default=True,
    show_default=True,
    help="Report a gap in a key's numbers as a missing message. --no-gaps: gaps are normal.",
)
@redact_option
@job_options()
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    seq_property: str,
    gaps: bool,
    redact_keys: str | None,
    job: Job,
) -> int:
    """Check the order of every key of TOPIC over its whole history, or --from … --until ….

    It finds inversions, gaps, repeats, and keys in several queues, and shows the messages.
    """
    with job.running(ctx, "audit") as here:
        from orderly.spark.jobs.audit.run import run  # noqa: PLC0415  pyspark
        from orderly.spark.jobs.audit.settings import AuditSettings  # noqa: PLC0415  pyspark

        settings = AuditSettings(
            here.source, seq_property, gaps=gaps, redact_keys=redact_keys is not None
        )
        result = run(here.spark, settings, here.output, here.progress)
        return here.show_result(result.verdict, result.headline, audit_answer(result))


def audit_answer(result: AuditResult) -> CommandOutput:
    """The worst keys."""
    return CommandOutput.of(_AUDITED, result.worst, result.document)


# --- `orderly spark replay`: part of a table into a topic, in each key's order --------------------


REPLAY_EXAMPLES = """\b
Examples:
  orderly spark replay /data/orders --into orders-again --from 2026-11-20T08:00:00Z
  orderly spark replay /data/orders --into orders-again --key o-17 --key o-18 --send --out replay-1
  orderly spark replay /data/orders --into orders-fixed --places failed.parquet
"""


@click.command(cls=OrderlyCommand, epilog=REPLAY_EXAMPLES)
@click.argument("table")
@click.option(
    "--into",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="The topic to send to.",
)
@click.option(
    "--from",
    "start",
    default="",
    metavar="WHERE",
    help="Where to start: a time (2026-11-21T08:00:00Z, or how long ago: 2h), or offsets as JSON:"
    ' {"TOPIC": {"BROKER": {"0": 123}}}.',
)
@click.option("--until", "end", default="", metavar="WHERE", help="Where to stop, as --from.")
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Only this key; may be given again."
)
@click.option(
    "--keys-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only the keys in this file, one per line.",
)
@click.option(
    "--places",
    default="",
    metavar="TABLE",
    help="Only the messages whose topic, broker, queue_id and queue_offset are in this Parquet"
    " table.",
)
@click.option("--send", is_flag=True, help="Send the messages. Without it, nothing is sent.")
@click.option(
    "--after-consumed",
    is_flag=True,
    help="Send even if groups have consumed later messages of these keys.",
)
@click.option("--skip-keyless", is_flag=True, help="Leave out messages without a sharding key.")
@click.option(
    "--selector",
    type=click.Choice([*KEYED, "single_queue"]),
    default="hash_mod",
    show_default=True,
    help="How a key's queue is chosen. Use the selector of the topic's producers.",
)
@redact_option
@job_options(topic=False)
@click.pass_context
def replay(
    ctx: click.Context, /, *, table: str, into: str, job: Job, send: bool, **wanted: Any
) -> int:
    """Show which messages of TABLE would go to a topic; with --send, send them.

    TABLE has the columns of the Spark source: topic, broker, queue_id, queue_offset, sharding_key,
    store_ts and body (optional: tag, keys, properties). A stream that writes to Parquet makes one.

    The messages of a key keep their order; a key from several queues is merged by store time. Each
    message carries its old position in the property ORDERLY_ID.

    --send needs --out DIR. If a replay breaks off, or messages are missing at the end, run the same
    command again: it sends only what is missing.

    Messages go back to their own topic only if no group has consumed later messages of their keys,
    or if you give --after-consumed.
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
        return here.show_result(result.verdict, result.headline, replay_answer(result))


def _selection(
    *, start: str, end: str, keys: tuple[str, ...], keys_file: Path | None, places: str
) -> ReplaySelection:
    from orderly.spark.jobs.replay.selection import ReplaySelection  # noqa: PLC0415  pyspark
    from orderly.spark.offsets import load_offsets, parse_moment  # noqa: PLC0415  as above

    given: dict[str, Any] = {}
    for text, option, moment, offsets in (
        (start, "--from", "since", "start"),
        (end, "--until", "until", "end"),
    ):
        if text.startswith("{"):
            given[offsets] = load_offsets(text, option)
        elif text:
            given[moment] = parse_moment(_at(text), option).millis / 1000
    lines = keys_file.read_text("utf-8").splitlines() if keys_file else []
    wanted = tuple(dict.fromkeys([*keys, *filter(None, lines)]))
    if keys_file and not wanted:  # "no keys" is "all keys" to those who do not say any
        raise ConfigError(f"--keys-file {keys_file} names no key, so there is nothing to replay")
    return ReplaySelection(**given, keys=wanted, places=places)


def replay_answer(result: ReplayResult) -> CommandOutput:
    """The most frequent keys."""
    columns = [
        Column("key"),
        Column("messages", ColumnKind.COUNT),
        Column("queues", ColumnKind.COUNT),
        Column("queue"),
        Column("first offset", ColumnKind.NUMBER),
        Column("last offset", ColumnKind.NUMBER),
    ]
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
    return CommandOutput(columns, rows, document=lambda: result.document)


# --- `orderly spark bundle`: for programs that start without orderly ------------------------------


BUNDLE_EXAMPLES = """\b
Examples:
  orderly spark bundle --out dist
  spark-submit --master yarn --py-files dist/orderly.zip dist/orderly_job.py \\
      audit orders --namesrv 10.0.0.1:9876 --out hdfs:///reports/orders
"""


@click.command(cls=OrderlyCommand, epilog=BUNDLE_EXAMPLES)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write them.",
)
@common_options
def bundle(out: Path) -> int:
    """Write orderly.zip and orderly_job.py, for spark-submit.

    Use them where orderly is not installed: on a cluster in deploy mode "cluster". Where it is
    installed, `orderly spark audit --master URL` works without them.

    The zip has orderly and the pure Python packages that it needs. The cluster's machines need
    Python 3.11 or newer with numpy, pandas and pyarrow; the driver also needs matplotlib.
    """
    from orderly.spark.bundling import write_bundle  # noqa: PLC0415  `--help` is quick

    for path in write_bundle(out):
        tell(str(path))
    return 0
