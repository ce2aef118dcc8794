"""`orderly backlog report`: all that matters about the backlog as one HTML file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import click

from orderly.cli.backlog.listing import unread
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.command import OrderlyCommand
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import say
from orderly.durable_file import FOR_ALL, is_device, replacing
from orderly.errors import ConfigError
from orderly.extras import install
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.reading import Scan
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog.states import Verdict

STDOUT = "-"
_OWN = 0o600

EXAMPLES = """\b
Examples:
  orderly backlog report --out backlog.html
  orderly backlog report --out backlog.html --samples 13 --interval 10s   # rates, over 2 minutes
  orderly backlog report 'ship*' --redact-keys hash --out - > to-send.html
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.option(
    "--out",
    required=True,
    metavar="FILE.html",
    help="Where to write it; - is stdout. An existing file is replaced.",
)
@groups_options()
@click.option(
    "--top",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    metavar="N",
    help="At most N lines in each table and plot. The report says what it leaves out.",
)
@redact_option
@pace_options
@common_options
@click.pass_context
def report(
    ctx: click.Context,
    *,
    out: str,
    names: Names,
    top: int,
    redact_keys: str | None,
    pace: Pace,
) -> int:
    """Write a report of all groups, or only GROUP...: one HTML file to read, print or send.

    It has a verdict, the groups and what to do about them, plots, first messages, parked keys and
    dead letters. The file loads nothing and runs no script. Drain times need samples over 30 s.
    """
    write_html = _writer()
    if out != STDOUT:
        _check_target(Path(out))
    judge = _Sampling(pace.samples)
    snapshot = measure(settings_of(ctx), names, pace, backlog=judge)
    history = {group: judge.history(group) for group in snapshot.groups}
    html = write_html(redacted(snapshot, redact_keys), history, samples=pace.samples, top=top)
    if out == STDOUT:
        click.echo(html.encode(), nl=False)
    else:
        write_whole(Path(out), html)
        say(f"wrote {out}")
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)


class _Sampling(Backlog):
    """Says on stderr how far the sampling is."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self._samples = samples
        self._taken = 0

    def take(self, scan: Scan) -> Snapshot:
        self._taken += 1
        if self._samples > 1:
            say(f"sample {self._taken} of {self._samples}")
        return super().take(scan)


def _writer() -> Callable[..., str]:
    """What makes the HTML; asked for before anything is measured."""
    try:
        from orderly.report.backlog import backlog_report  # noqa: PLC0415
        from orderly.report.page import html  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"a report needs jinja2 and matplotlib: {install('monitoring')}"
        ) from error
    return lambda *measured, **how: html(backlog_report(*measured, **how))


def _check_target(path: Path) -> None:
    """See before anything is measured that the file can be written."""
    try:
        taken, possible = path.is_dir(), path.parent.is_dir()
    except OSError as error:  # a name that is too long
        raise ConfigError(f"cannot write {path!s:.80}: {error.strerror}") from error
    if taken:
        raise ConfigError(f"{path} is a directory: give the name of a file")
    if not possible:
        raise ConfigError(f"there is no directory {path.parent}: create it, or give another file")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old one or the new one, and nothing between.

    It has keys of messages: a new one is its owner's alone, and one that replaces the owner's own
    keeps who may read it. No other file is written, whatever links lead there: a link is replaced
    itself.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        if is_device(path):
            _write_to_device(path, text)
        else:
            with replacing(path, _mode_of(path)) as file:
                file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _write_to_device(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a link leads elsewhere by now
            raise OSError(errno.EINVAL, "it leads to a regular file (for stdout give -)")
        file.write(text.encode())


def _mode_of(path: Path) -> int:
    """Who may read and write the file that replaces one."""
    try:
        before = path.lstat()
    except FileNotFoundError:
        return _OWN
    ours = stat.S_ISREG(before.st_mode) and before.st_uid == os.geteuid()
    return before.st_mode & FOR_ALL if ours else _OWN
