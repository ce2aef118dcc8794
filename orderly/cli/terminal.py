r"""The terminal: text made safe for it, streams, colours, log lines, questions, progress.

A message's key may hold escape sequences that repaint the reader's screen, or a newline that
forges a line of output. What is not printable is shown as `\x1b`-style escapes or dropped.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import time
from base64 import b64encode
from collections.abc import Mapping

import click

from orderly.errors import OrderlyError
from orderly.foreign_text import escaped
from orderly.log import for_people, is_terminal
from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.monitoring.texts import iso_time

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, hyperlinks
    r"|[\x1b][PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?"  # the two-character rest
)


def printable(text: str) -> str:
    """`text` on one line without terminal escapes; other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return escaped(_ESCAPE_SEQUENCE.sub("", text))


def in_our_voice(text: str) -> str:
    """An error of click as ours are: on one line, not a sentence of its own."""
    words = " ".join(text.split())
    if words[1:2].islower():  # a word, and no name such as BODY
        words = words[0].lower() + words[1:]
    return words.removesuffix(".").replace(". (Did you mean", " (did you mean")


def preview(message: ReceivedMessage, width: int) -> str:
    """The start of a message's body, at most `width` characters; undecodable bytes are marked."""
    if isinstance(message, UndecodableMessage):
        body = f"(cannot be read: {message.why})".encode()
    else:
        body = message.body
    text = printable(body[: width * 4].decode("utf-8", errors="replace"))
    cut = len(text) > width or len(body) > width * 4
    return text[: width - 1] + "…" if cut else text


def json_body(message: ReceivedMessage) -> dict[str, str]:
    """A message's body as a field of a JSON object: a text, or base64 if it is not UTF-8.

    Of one that cannot be read: the bytes as they are stored, in base64, and why.
    """
    if isinstance(message, UndecodableMessage):
        return _base64(message) | {"undecodable": message.why}
    try:
        return {"body": message.body.decode()}
    except UnicodeDecodeError:
        return _base64(message)


def _base64(message: ReceivedMessage) -> dict[str, str]:
    return {"body_base64": b64encode(message.raw_body).decode("ascii")}


# --- standard input and output as a command may find them: closed, of few characters, left early --


def repair_streams() -> None:
    """Make what is missing: a closed stream is an empty one, and no character is too much.

    Otherwise an answer with a name in another script ends in an error where only ASCII goes out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as after `<&-` and `>&-`
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Write to nobody from now on: the reader has left (`orderly backlog | head`), or it is full.

    The interpreter's last flush would fail loudly, and change the exit code.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


# --- colours

COLOR_CHOICES = ("auto", "always", "never")


def colors_wanted(choice: str, env: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide on colours: `--color`, NO_COLOR (no-color.org), TERM=dumb.

    Args:
        choice: "always", "never", or "auto": on a terminal that can, unless NO_COLOR is set.
        env: the environment.
        terminal: whether the output is one.
    """
    if choice != "auto":
        return choice == "always"
    return terminal and not env.get("NO_COLOR") and can_draw(env)


def can_draw(env: Mapping[str, str]) -> bool:
    """Whether a terminal takes escape sequences."""
    return env.get("TERM", "") != "dumb"


# --- where the library's events go: stderr, a line each, with what was raised below it -----------
# For a person a sentence, else ISO 8601 times and fields as key=value. All texts are escaped where
# events are emitted (see `orderly.log`), so nothing a message contains can act on the terminal.


LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _StderrHandler(logging.Handler):
    """Writes to the stderr of the moment: a live display redirects it while it draws."""

    def emit(self, record: logging.LogRecord) -> None:
        shown = logging.makeLogRecord(record.__dict__)
        if is_terminal(sys.stderr):
            shown.msg = for_people(record)
        else:
            level = record.levelname.lower()
            shown.msg = f"{iso_time(record.created)} {level} {record.name} {record.getMessage()}"
        shown.args = ()
        sys.stderr.write(f"{self.format(shown)}\n")


def configure_logs(verbose: int) -> None:
    """Show events of level warning and above; -v also info, -vv also debug."""
    logger = logging.getLogger("orderly")
    logger.handlers = [_StderrHandler()]
    logger.setLevel(LEVELS[min(verbose, len(LEVELS) - 1)])
    logger.propagate = False


def configure_program_logs(verbose: int) -> None:
    """For a program of the user's: events of level info and above, -v all, go where it says.

    Called before the program is imported; `configure_default` afterwards.
    """
    logger = logging.getLogger("orderly")
    logger.handlers = []
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = True


def configure_default_logs(verbose: int) -> None:
    """Show what a program logs that configures no logging of its own, as its events."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_StderrHandler())
        root.setLevel(logging.DEBUG if verbose else logging.INFO)


# --- lines: on stderr, so that stdout stays data, or as the answer itself -------------------------
# Names of servers, groups and files may be in them, so nothing else of a command prints lines.


def say(text: str) -> None:
    """Print a line on stderr."""
    click.echo(printable(text), err=True)


def tell(text: str) -> None:
    """Print a line on stdout: the answer of a command that has no other."""
    click.echo(printable(text))


def say_unread(errors: Mapping[str, object]) -> None:
    """Print a line for each broker that could not be read, and why."""
    for name, error in errors.items():
        say(f"broker {name} could not be read: {error}")


# --- interactive prompts: only on a terminal ------------------------------------------------------


def require_somebody(ctx: click.Context, otherwise: str) -> None:
    """Refuse to ask where nobody would answer.

    Args:
        ctx: of the command.
        otherwise: what to give instead, as "--yes".

    Raises:
        UsageError: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to ask on: give {otherwise}", ctx)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirmed(ctx: click.Context, question: str, otherwise: str = "--yes") -> bool:
    """Ask on stderr, with "no" as the default; see `require_somebody`."""
    require_somebody(ctx, otherwise)
    return click.confirm(printable(question), err=True)


# --- how far a long command is: a line on stderr now and then, so that stdout stays data ----------


_EVERY = 1.0  # seconds


class ProgressLine:
    """Counts what is done, and prints it at most once a second. For one thread.

    Args:
        what: is being done, as in "sent".
        total: of how many; None: not known.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._of = "" if total is None else f" of {total}"
        self._printed_at = time.monotonic()

    def reached(self, count: int) -> None:
        """Note that `count` are done."""
        now = time.monotonic()
        if now - self._printed_at >= _EVERY:
            self._printed_at = now
            click.echo(f"{count}{self._of} {self._what}", err=True)


# --- what a command that failed says --------------------------------------------------------------


def failure_text(error: BaseException, *, debug: bool) -> str:
    """What a command that failed says.

    Args:
        error: that ended it.
        debug: whether its traceback is shown.
    """
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        return (_meant(error) or in_our_voice(error.format_message())) + hint
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OrderlyError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:  # a full disk, a folder that is gone
        what = in_our_voice(error.strerror or str(error))
        return f"{error.filename}: {what}" if error.filename else what
    hint = "" if debug else "; --debug shows where"
    return f"unexpected {type(error).__name__}: {error} (this is a bug{hint})"


def _meant(error: click.ClickException) -> str:
    """What to say of -g or -t where the command is about that group or topic, which comes first."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    command, option = error.ctx.command_path, error.option_name
    for param in error.ctx.command.params:
        name = param.name or "?"
        if isinstance(param, click.Argument) and option in (f"-{name[0]}", f"--{name}"):
            usage = f"{command} {param.metavar or name.upper()}"
            return f"no such option {option!r}: it comes first, as in {usage}"
    return ""
