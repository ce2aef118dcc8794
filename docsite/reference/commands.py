"""The command line: what `--help` says of each command, read from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docsite.markdown import block, code, prose, table, terms
from orderly.cli.commands import CODES, TASKS
from orderly.cli.root import root

_VERBATIM = "\b"  # click's mark of a paragraph whose lines stay as they are


def every_command() -> str:
    """All commands below `orderly`, each with its usage, its help, its options and examples."""
    return "\n\n".join(part for context in contexts() for part in _command(context))


def command_tree() -> str:
    """A table of all commands by task: what each is about, and what it does."""
    rows = []
    for context in contexts():
        command = context.command
        if isinstance(command, click.Group):
            continue
        words = context.command_path.split()[1:]
        task = next(task for task, table in TASKS.items() if words[0] in table)
        about = [param.make_metavar(context) for param in command.get_params(context)
                 if isinstance(param, click.Argument)]  # fmt: skip
        first = inspect.cleandoc(command.help or "").split("\n\n")[0]
        rows.append((task, code(" ".join(("orderly", *words, *about))), prose(first)))
    return table(("task", "command", "what it does"), rows)


def common_options() -> str:
    """What every command takes."""
    context = click.Context(root, info_name="orderly")
    return _options(context, [each for each in _given(context) if each.name in _common()])


def contexts(above: click.Context | None = None) -> Iterator[click.Context]:
    """A context for each command below, in the order of `--help`; a group before its commands."""
    above = above or click.Context(root, info_name="orderly")
    group = above.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=above)
        if command.hidden:
            continue
        yield context
        if isinstance(command, click.Group):
            yield from contexts(context)


def _command(context: click.Context) -> Iterator[str]:
    depth = len(context.command_path.split())
    yield f"{'#' * depth} {context.command_path}"
    yield block(f"{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}")
    yield _text(context.command.help)
    own = [each for each in _given(context) if each.name not in _common()]
    if own:
        yield _options(context, own)
    yield _exit_codes(" ".join(context.command_path.split()[1:]))
    yield _text(context.command.epilog)


def _exit_codes(words: str) -> str:
    codes = CODES.get(words, {})
    told = "; ".join(f"**{number}** {prose(text)}" for number, text in codes.items())
    return f"Exit codes: {told}." if told else ""


def _given(context: click.Context) -> list[click.Option]:
    """The options that `--help` shows."""
    found = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    return [each for each in found if not each.hidden]


def _common() -> set[str | None]:
    context = click.Context(root, info_name="orderly")
    return {each.name for each in _given(context) if each.name != "version"}


def _options(context: click.Context, options: list[click.Option]) -> str:
    records = [each.get_help_record(context) for each in options]
    return terms((code(shown), prose(help_) or "…") for shown, help_ in filter(None, records))


def _text(text: str | None) -> str:
    """A help text: paragraphs, and those whose lines stay as they are."""
    paragraphs = inspect.cleandoc(text or "").partition("\f")[0].split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if text.lstrip().startswith(_VERBATIM):
        return block(inspect.cleandoc(text.replace(_VERBATIM, "", 1)).strip("\n"))
    return prose(text)
