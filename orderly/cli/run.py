"""`orderly run`: the consumers of a program, started together and closed together."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import address
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import configure_default_logs, configure_program_logs, say
from orderly.errors import ConfigError
from orderly.signals import heard

if TYPE_CHECKING:
    from orderly.consumer import OrderlyConsumer

EXAMPLES = """\b
Examples:
  orderly run shipping:consumer
  orderly run shipping:consumer billing.app:consumer --probe 0.0.0.0:8080
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.argument("consumers", nargs=-1, required=True, metavar="MODULE:NAME...")
@click.option(
    "--probe",
    metavar="HOST:PORT",
    help="Serve /live, /ready and /health for all consumers together. Port 0: any free port.",
)
@common_options
@click.pass_context
def run(ctx: click.Context, *, consumers: tuple[str, ...], probe: str | None) -> int:
    """Run consumers of your program until SIGTERM or Ctrl-C.

    MODULE:NAME... says where they are: shipping:consumer is the OrderlyConsumer named `consumer`
    in the module `shipping`. The module must be importable from this folder. The command starts
    consumers that your program has not started.

    On the first signal all consumers close: running handlers finish, offsets are saved, queues are
    unlocked. A second signal ends the process at once.

    -v logs more to stderr, unless your program configures logging itself. Your program gets the
    name servers and the namespace as ORDERLY_NAMESRV and ORDERLY_NAMESPACE.
    """
    settings = settings_of(ctx)
    where = None if probe is None else address(probe, "--probe", "0.0.0.0:8080")
    _hand_on(settings)
    configure_program_logs(settings.verbose)
    found = list(dict.fromkeys(_load(name) for name in consumers))
    configure_default_logs(settings.verbose)
    with heard() as ended_by, _probing(found, where):
        try:
            for consumer in found:
                if consumer.state == "created" and not ended_by():
                    consumer.start()
            for consumer in found:
                consumer.wait()
        finally:
            for consumer in found:
                consumer.close()
    left = [why for consumer in found for why in consumer.explain()]
    for why in left:
        say(f"left locked for a minute, {why}")
    return 1 if left else 0


def _hand_on(settings: CommonOptions) -> None:
    """Let the program find what the command line, a context or a local broker says."""
    found = {name: str(value) for name, (value, _) in settings.found().items()}
    if "namesrv" not in found:
        from orderly.testing.daemon_state import find  # noqa: PLC0415  rarely needed

        if (daemon := find()) is not None:
            found["namesrv"] = daemon.namesrv
    for name in ("namesrv", "namespace"):
        if name in found:
            os.environ[f"ORDERLY_{name.upper()}"] = found[name]


def _load(name: str) -> OrderlyConsumer:
    from orderly.consumer import OrderlyConsumer  # noqa: PLC0415  `--help` is quick

    module, _, attribute = name.partition(":")
    if not module or not all(part.isidentifier() for part in attribute.split(".")):
        raise ConfigError(f"{name!r} is not MODULE:NAME, as shipping:consumer")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as error:  # the program's code runs
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise ConfigError(
                f"there is no module {missing} in {here} or on PYTHONPATH: run the command in"
                " the folder that has it"
            ) from error
        raise ConfigError(f"module {module} cannot be imported: {error!r}") from error
    try:
        consumer = attrgetter(attribute)(imported)
    except AttributeError as error:
        there = [n for n, value in vars(imported).items() if isinstance(value, OrderlyConsumer)]
        hint = f"there is {', '.join(there)}" if there else "there is no consumer in it"
        raise ConfigError(f"module {module} has no {attribute}: {hint}") from error
    if not isinstance(consumer, OrderlyConsumer):
        kind = type(consumer).__name__
        raise ConfigError(f"{name} is not an OrderlyConsumer but of type {kind}")
    if consumer.state not in ("created", "running"):
        raise ConfigError(
            f"{name} is {consumer.state}, and cannot be started again: let the module only create"
            ' it, and start it under `if __name__ == "__main__":`'
        )
    return consumer


@contextmanager
def _probing(consumers: Sequence[OrderlyConsumer], where: tuple[str, int] | None) -> Iterator[None]:
    if where is None:
        yield
        return
    from orderly.consumer.health import together  # noqa: PLC0415  as above
    from orderly.consumer.probe import Probe  # noqa: PLC0415  `--help` is quick

    host, port = where
    with Probe(port, lambda: together([(c.group, c.health()) for c in consumers]), host) as probe:
        shown = f"[{host}]" if ":" in host else host
        say(f"serving http://{shown}:{probe.port}/health")
        yield
