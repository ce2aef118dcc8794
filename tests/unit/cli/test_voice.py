"""One voice in all helps: the rules, each over the whole command tree."""

import re
import shlex

import click
import pytest

from orderly.cli import commands
from orderly.cli.backlog import COMMANDS as BACKLOG
from orderly.cli.commands import CODES, GENERAL
from orderly.cli.options import Duration
from orderly.cli.root import SPARK, root, run
from orderly.cli.settings import COMMON as COMMON_NAMES
from tests.support.command_tree import arguments, leaves, options, tree

TREE, LEAVES = tree(), leaves()
EVERY = [(words, param) for words, command in TREE.items() for param in options(command)]
COMMON = [param for param in root.params if param.help]
TABLES = [about for table in (commands.COMMANDS, BACKLOG, SPARK) for _, about in table.values()]
NUMBERS = (click.types.IntParamType, click.types.FloatParamType)
UNITS = {"N", "X", "BYTES", "MESSAGES", "MS", "PORT"}
NOT_OURS = re.compile(
    r"\be\.g\.|\bi\.e\.|\betc\b|\bplease\b|!|\w't\b|  |\bwill be\b|Ctrl\+C|\^C|\bthe the\b",
    re.IGNORECASE,
)
SENTENCES = re.compile(r"[A-Z0-9].*\.", re.DOTALL)
METAVAR = re.compile(r"[A-Z\[][A-Z0-9a-z:=.…,/|\[\]]*|earliest\|latest\|TIME")
WIDTH = 100  # columns that a line of an example may have


def texts_of(words):
    command = TREE[words]
    help_texts = [param.help or "" for param in options(command)]
    return [command.help or "", command.epilog or "", *help_texts]


# --- what a command says of itself -------------------------------------------------------------


@pytest.mark.parametrize("words", TREE)
def test_a_command_says_in_a_sentence_what_it_does(words):
    first = (TREE[words].help or "").split("\n\n")[0].strip()
    assert re.match(r"[A-Z].*\.$", first, re.DOTALL), first


@pytest.mark.parametrize("about", TABLES)
def test_a_line_in_a_list_of_commands_is_a_short_sentence(about):
    assert re.fullmatch(r"[A-Z].{,62}[.?]", about)


@pytest.mark.parametrize("words", TREE)
def test_words_that_are_not_ours(words):
    found = [match[0] for text in texts_of(words) for match in NOT_OURS.finditer(_prose(text))]
    assert found == []


def _prose(text):
    """Without examples and tables, which have their own spaces."""
    return "\n".join(line.strip() for line in text.partition("\b")[0].splitlines())


@pytest.mark.parametrize("words", LEAVES)
def test_every_argument_is_explained(words):
    for param in arguments(LEAVES[words]):
        name = re.sub(r"[][]|\.{3}$", "", param.metavar or param.name or "").upper()
        shown = isinstance(param.type, click.Choice)  # its choices are in the usage
        assert shown or name in (LEAVES[words].help or ""), name


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", TREE)
def test_an_option_is_explained_in_sentences(words):
    wrong = [p for p in options(TREE[words]) if not SENTENCES.fullmatch(p.help or "")]
    assert [(param.opts[-1], param.help) for param in wrong] == []


@pytest.mark.parametrize("param", COMMON, ids=lambda param: param.opts[0])
def test_an_option_of_all_commands_is_explained_in_sentences(param):
    assert SENTENCES.fullmatch(param.help)


@pytest.mark.parametrize("words", TREE)
def test_a_default_is_told(words):
    found = [param for param in options(TREE[words]) if not _tells_default(param)]
    assert [(param.opts[-1], param.help) for param in found] == []


def _tells_default(param):
    if "default:" in param.help:  # written: Default: …
        return False
    if param.is_flag or param.required or param.multiple:
        return True
    none = param.to_info_dict()["default"] in {None, "", False}
    return none or param.show_default or "Default: " in param.help


@pytest.mark.parametrize("words", TREE)
def test_a_number_names_its_unit(words):
    for param in options(TREE[words]):
        if isinstance(param.type, NUMBERS) and not param.count:
            assert param.metavar in UNITS, param.opts
        if isinstance(param.type, Duration):
            assert (param.metavar or "DURATION").strip("[]") == "DURATION", param.opts


@pytest.mark.parametrize("words", TREE)
def test_what_an_option_takes_is_in_capitals(words):
    for param in options(TREE[words]):
        if isinstance(param.type, click.types.StringParamType):
            assert param.metavar, f"{param.opts} does not name what it takes"
        if param.metavar:
            assert METAVAR.fullmatch(param.metavar), param.opts


@pytest.mark.parametrize("words", TREE)
def test_what_may_be_given_again_says_so(words):
    for param in options(TREE[words]):
        assert param.multiple == ("may be given again" in param.help), param.opts


@pytest.mark.parametrize("words", TREE)
def test_the_short_form_comes_first(words):
    for param in options(TREE[words]):
        assert [len(name) for name in param.opts] == sorted(map(len, param.opts)), param.opts


def test_one_short_form_of_an_option_everywhere():
    short = {}
    for _, param in EVERY:
        *letters, long = param.opts
        if letters:
            short.setdefault(long, set()).update(letters)
    assert {long: letters for long, letters in short.items() if len(letters) > 1} == {}


@pytest.mark.parametrize("long", ["--redact-keys", "--no-headers", "--raw", "--yes"])
def test_the_same_option_says_the_same_everywhere(long):
    assert len({param.help for _, param in EVERY if long in param.opts}) == 1


def test_the_format_is_asked_for_in_the_same_words():
    chosen = [p for _, p in EVERY if "--output" in p.opts and isinstance(p.type, click.Choice)]
    assert {param.help for param in chosen} == {"How to print it."}
    assert all("json" in param.type.choices for param in chosen)


def test_what_every_command_takes_is_told_once_and_named_everywhere(capsys):
    common = {param.name: param for param in root.params if param.name in COMMON_NAMES}
    assert [COMMON_NAMES[name] in param.opts for name, param in common.items()] == [True] * 6
    assert run(["tail", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Options of every command: {', '.join(COMMON_NAMES.values())}: see" in told
    assert run(["broker", "start", "--help"]) == 0
    assert "of every command" not in capsys.readouterr().out  # it asks no cluster


# --- one grammar -------------------------------------------------------------------------------


@pytest.mark.parametrize("words", LEAVES)
def test_what_a_command_is_about_comes_first(words):
    """A group or a topic is the first argument; as an option it only narrows down."""
    names = [param.name for param in arguments(LEAVES[words])]
    subjects = [name for name in names if name in {"group", "topic"}]
    assert names[: len(subjects)] == subjects
    for param in options(LEAVES[words]):
        if {"-g", "-t"} & set(param.opts):
            assert param.name.rstrip("s") not in names, "one way to name it"
            assert param.help.startswith("Only "), param.opts
            assert not param.required


def test_there_is_one_word_for_a_list():
    assert [
        words for words in TREE if words.rpartition(" ")[2] in {"ls", "show-all", "index"}
    ] == []


VALUES = {"--from": {"earliest|latest|TIME", "WHERE"}, "--until": {"TIME", "WHERE"},
          "--out": {"FILE.html", "FILE", "DIR"}, "--topic": {"GLOB", "TOPIC"},
          "--timeout": {None, "DURATION"}}  # fmt: skip
"""What an option takes that has more than one word for it."""


def test_an_option_takes_the_same_everywhere():
    taken = {}
    for _, param in EVERY:
        taken.setdefault(param.opts[-1], set()).add(None if param.is_flag else param.metavar)
        if param.is_flag:
            taken[param.opts[-1]].add("(a flag)")
    for long, kinds in taken.items():
        assert len(kinds - {"(a flag)", None}) <= 1 or kinds == VALUES[long], (long, kinds)
        assert "(a flag)" not in kinds or len(kinds) == 2, (long, kinds)
    choices = {}
    for _, param in EVERY:
        if isinstance(param.type, click.Choice) and param.opts[-1] != "--output":
            choices.setdefault(param.opts[-1], []).append(tuple(param.type.choices))
    assert {long: found for long, found in choices.items() if len({*found}) > 1} == {
        "--group-by": [("fingerprint", "class", "queue"), ("topic", "tags", "key")]
    }


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("backlgo check g", "no such command 'backlgo': did you mean backlog?"),
        ("topics", "no such command 'topics': did you mean topic?"),
        ("topic ls", "no such command 'ls': did you mean list?"),
        ("backlog chek g", "no such command 'chek': did you mean check?"),
        ("group xyz", "no such command 'xyz': orderly group has delete, list"),
        ("frobnicate", "no such command 'frobnicate' (see: orderly --help)"),
        ("locks -g shipping", "no such option '-g': it comes first, as in orderly locks GROUP"),
        (
            "tail --topic orders",
            "no such option '--topic': it comes first, as in orderly tail TOPIC",
        ),
    ],
)
def test_what_was_meant_is_told(line, meant, capsys):
    assert run(line.split()) == 3
    assert meant in capsys.readouterr().err


def test_the_commands_are_listed_by_what_one_is_about_to_do(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    headings = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert headings[:4] == ["Start", "Watch", "Repair", "Measure"]
    assert list(commands.TASKS) == headings[:4]
    assert out.index("Start:") < out.index("Options:"), "what there is comes first"


# --- examples ----------------------------------------------------------------------------------


def examples_of(words):
    epilog = LEAVES[words].epilog or ""
    block = re.search(r"\x08\nExamples:\n((?:  .*\n?)+)", epilog)
    return block[1].replace("\\\n", " ").splitlines() if block else []


@pytest.mark.parametrize("words", LEAVES)
def test_a_command_has_examples_and_they_can_be_read(words, monkeypatch, tmp_path):
    lines = examples_of(words)
    assert 1 <= len(lines) <= 6
    settings = tmp_path / "config.toml"
    settings.write_text('[contexts.prod]\nnamesrv = "10.0.0.1:9876"\n')
    monkeypatch.setenv("ORDERLY_CONFIG", str(settings))
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _param, _ctx: value)
    calls = [call for call in map(_call, lines) if call[:1] == ["orderly"]]
    assert any(" ".join(call).startswith(f"orderly {words.partition(' ')[0]}") for call in calls)
    for call in calls:
        _parsed(call[1:])


def _call(line):
    """The words of our call in an example: behind a pipe, before what follows."""
    text = re.split(r" (?:>|&&) ", line.strip().rpartition("| ")[2])[0]
    return shlex.split(text, comments=True)


def _parsed(args):
    """Have click read a command line down to its last command, and call nothing."""
    context, command = None, root
    while True:
        resilient = isinstance(command, click.Group)
        context = command.make_context(
            "orderly", list(args), parent=context, resilient_parsing=False
        )
        if not resilient:
            return
        rest = [*context._protected_args, *context.args]
        name, command, args = command.resolve_command(context, rest)
        assert command is not None, name


@pytest.mark.parametrize("words", TREE)
def test_a_line_is_not_too_long(words, capsys):
    assert run([*words.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []


# --- exit codes --------------------------------------------------------------------------------


def test_the_table_of_exit_codes_has_every_command_and_no_other():
    assert set(CODES) == set(LEAVES)


@pytest.mark.parametrize("words", CODES)
def test_codes_are_told_alike(words):
    codes = CODES[words]
    assert list(codes) == sorted(codes)
    assert set(codes) <= set(GENERAL)
    assert {0, 3} <= set(codes)
    for meaning in codes.values():
        assert re.match(r"[a-z]|OK|WARNING|CRITICAL|UNKNOWN", meaning), meaning
        assert not meaning.endswith(".")


@pytest.mark.parametrize("words", LEAVES)
def test_help_ends_with_the_codes_of_the_table_and_examples(words, capsys):
    assert run([*words.split(), "--help"]) == 0
    told = capsys.readouterr().out.partition("Exit codes:\n")[2]
    codes, _, examples = told.partition("\n\n")
    assert [int(number) for number in re.findall(r"^  (\d)  ", codes, re.MULTILINE)] == list(
        CODES[words]
    )
    assert examples.startswith("Examples:")


@pytest.mark.parametrize("words", TREE)
def test_codes_are_told_in_the_table_only(words):
    assert re.search(r"\b[Ee]xit(?:s| codes?:) \d", TREE[words].help or "") is None
