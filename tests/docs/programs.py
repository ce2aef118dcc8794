"""Programs in console blocks that are not run here, and what is checked instead.

They install, need a network, another machine, or minutes. What they name must be there: extras of
pip, targets of make, files of the repository; our own commands have the arguments they are given.
"""

import functools
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import click

from orderly.cli.root import root
from orderly.errors import OrderlyError
from tests.docs.pages import ROOT

RUN = {
    "orderly",
    "python",
    "python3",
    "pytest",
    "cat",
    "ls",
    "echo",
    "grep",
    "head",
    "export",
    "cd",
}

_RUN_OTHERWISE = RUN - {"orderly"}
_SEPARATORS = {"|", "||", "&&", ";", "&"}
_ASSIGNMENT = re.compile(r"\w+=")
_OWN = re.compile(r"(?:rocketmq-orderly|\.|/path/to/checkout)\[([\w,-]+)\]")


def commands(line):
    """The programs of a command line with their words: split at pipes, `&&` and `;`."""
    found = [[]]
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    for word in lexer:
        if word in _SEPARATORS:
            found.append([])
        elif found[-1] or not _ASSIGNMENT.match(word):
            found[-1].append(word)
    return [words for words in found if words]


def objection(words, folder=ROOT):
    """Why a command that is not run cannot work; "" if nothing is known against it.

    Args:
        words: the command's.
        folder: where it is called, beside the repository's root.
    """
    program = Path(words[0]).name
    if "/" in words[0] and not words[0].startswith(("env/", ".venv/", "/", "~")):
        return _missing_files(words[:1], folder)
    if words[1:2] == ["-m"]:
        return _module(words[2], [word for word in words[3:] if word.startswith("--")])
    if program in _RUN_OTHERWISE:
        return ""
    if program not in CHECKS:
        return f"{program} is not known to tests/docs/programs.py: run it, or say how it is checked"
    return CHECKS[program](words, folder)


def _nothing(words, folder):
    return ""


def _orderly(words, folder):
    """Have our command line read its arguments, and do nothing."""
    command, name, rest = root, words[0], words[1:]
    try:
        context = command.make_context(name, rest)
        while isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, _rest(context))
            context = command.make_context(name, rest, parent=context)
    except (click.ClickException, OrderlyError) as error:
        return str(getattr(error, "message", error))
    return ""


def _rest(context):
    return [*context._protected_args, *context.args]


def _pip(words, folder):
    for word in words:
        found = _OWN.match(word)
        if found and (unknown := set(found[1].split(",")) - _extras()):
            return f"no such extra: {', '.join(sorted(unknown))}"
    return _missing_files([w for flag, w in _pairs(words) if flag == "-r"], folder)


def _module(name, options):
    """`python -m`: the module is there, and its source names the options."""
    path = ROOT / name.replace(".", "/")
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    if not (ROOT / name.partition(".")[0]).is_dir():
        return ""  # not ours
    if not file.exists():
        return f"no such module: {name}"
    text = file.read_text("utf-8")
    unknown = [option for option in options if f'"{option}"' not in text]
    return f"{name} has no {', '.join(unknown)}" if unknown else ""


def _make(words, folder):
    wanted = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    unknown = set(wanted) - _targets()
    return f"no such target: {', '.join(sorted(unknown))}" if unknown else ""


def _named_files(words, folder):
    flags = {"-f", "--file", "--filename", "-k"}
    return _missing_files([word for flag, word in _pairs(words) if flag in flags], folder)


def _missing_files(names, folder):
    names = [name for name in names if "://" not in name and name != "-"]
    missing = [name for name in names if not any((at / name).exists() for at in (ROOT, folder))]
    return f"no such file: {', '.join(missing)}" if missing else ""


def _pairs(words):
    """Words with the word before them; `--flag=word` counts as both."""
    split = [part for word in words for part in (word.split("=", 1) if word[0] == "-" else [word])]
    return list(itertools.pairwise(split))


@functools.cache
def _extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return frozenset(project["optional-dependencies"])


@functools.cache
def _targets():
    text = (ROOT / "Makefile").read_text("utf-8")
    return frozenset(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


CHECKS = {
    "apt": _nothing,
    "apt-get": _nothing,
    "curl": _nothing,
    "docker": _named_files,
    "faststream": _nothing,
    "git": _nothing,
    "jq": _nothing,
    "kubectl": _named_files,
    "less": _nothing,
    "make": _make,
    "mqadmin": _nothing,
    "orderly": _orderly,
    "pip": _pip,
    "pip3": _pip,
    "pipx": _pip,
    "promtool": _nothing,
    "python3.11": _nothing,
    "source": _nothing,
    "spark-submit": _nothing,
    "sqlite3": _nothing,
    "tar": _nothing,
    "twine": _nothing,
    "uv": _pip,
    "uvicorn": _nothing,
}
