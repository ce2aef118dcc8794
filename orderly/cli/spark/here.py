"""What a job's command works with: session, output, progress; and how it ends.

Spark's errors become one line: what of ours caused them, or Spark's own first line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from orderly.cli.formats import Answer, show
from orderly.cli.settings import Settings
from orderly.errors import ConfigError, OrderlyError
from orderly.monitoring.backlog.states import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orderly.cli.spark.options import Job
    from orderly.spark.jobs.output import Output
    from orderly.spark.jobs.progress import Progress

EXIT_CODES = {Verdict.OK: 0, Verdict.WARNING: 1, Verdict.CRITICAL: 1, Verdict.UNKNOWN: 3}


@dataclass(frozen=True, slots=True)
class Here:
    """A job's surroundings.

    Attributes:
        spark: the session.
        output: where results go; None: nowhere.
        progress: tells of steps.
        job: the options.
        settings: what all commands have.
    """

    spark: SparkSession
    output: Output | None
    progress: Progress
    job: Job
    settings: Settings

    @property
    def source(self) -> dict[str, str]:
        """Options for the source, as `discovering.pin` and `source.read` take them.

        Raises:
            ConfigError: no name server is named, or a bad setting.
        """
        topic = {"topic": self.settings.topic(self.job.topic)} if self.job.topic else {}
        return {**connection(self.settings), **topic, **self.job.source()}

    def tell(self, verdict: Verdict, headline: str, answer: Answer) -> int:
        """Print what was found, and return the exit code."""
        if self.job.form.for_reader:
            click.echo(f"{verdict.name}: {headline}")
        show(answer, self.job.form, self.settings)
        if self.output is not None:
            click.echo(f"wrote {self.output.path('report.html')}", err=True)
        return EXIT_CODES[verdict]


@contextmanager
def here_for(job: Job, settings: Settings, name: str, *, output: bool) -> Iterator[Here]:
    """Start what the job needs, and end it; see `Job.running`."""
    if job.topic:  # to say at once what is wrong there, not after Spark has started
        settings.topic(job.topic)
        connection(settings)
    with ExitStack() as stack, spark_errors():
        spark = stack.enter_context(session(job, settings, name))
        from orderly.spark.jobs.output import Output  # noqa: PLC0415  imports pyspark
        from orderly.spark.jobs.progress import silent, told  # noqa: PLC0415  as above

        results = None
        if output and job.out:
            made = Output(job.out, job.table_format, overwrite=job.overwrite)
            results = stack.enter_context(made)
        progress = silent if job.quiet else told(spark)
        yield Here(spark, results, progress, job, settings)


def connection(settings: Settings) -> dict[str, str]:
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
def session(job: Job, settings: Settings, name: str) -> Iterator[SparkSession]:
    """The running session, or one that ends with the command."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  an extra, and costs time

        from orderly.spark.session import get_session  # noqa: PLC0415  as above
    except ImportError as error:
        package = (error.name or "pyspark").partition(".")[0]
        raise ConfigError(
            f"orderly spark needs {package}: pip install 'rocketmq-orderly[cli,spark]'"
        ) from error
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
    """What of a Spark error tells the user most: our own error's line, or the first."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return f"Spark failed: {first}; --debug shows all"
