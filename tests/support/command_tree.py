"""The whole command line as a table: every group and command of `orderly`, by its words."""

import click

from orderly.cli.root import root
from orderly.cli.settings import COMMON


def tree():
    """Every group and command, by its words: {"": …, "backlog": …, "backlog check": …}."""
    return dict(_walk(root, ()))


def leaves():
    """Every command that is no group."""
    return {words: found for words, found in tree().items() if not isinstance(found, click.Group)}


def _walk(command, words):
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=" ".join(("orderly", *words)))
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), (*words, name))


def options(command):
    """Its options without those that every command has."""
    return [
        param
        for param in command.params
        if isinstance(param, click.Option) and param.name not in COMMON
    ]


def arguments(command):
    """Its arguments."""
    return [param for param in command.params if isinstance(param, click.Argument)]
