"""The harness finds what is wrong, and says on which page and line."""

import threading

import pytest

from tests.docs import python_blocks, room
from tests.docs.output import missing
from tests.docs.pages import BadPage, parse
from tests.docs.programs import commands, objection
from tests.docs.runner import run_blocks

PAGE = "docs/how-to/made-up.md"


def page(tag, *lines, mark=""):
    """A page with a heading, maybe a mark, and a block: its first line is the page's fourth."""
    comment = f"<!-- block: {mark} -->" if mark else ""
    return "\n".join(["# Made up", comment, f"```{tag}", *lines, "```", ""])


WRONG = [
    (page("python", "x = 1", "print(y)"), f"{PAGE}:5: NameError"),
    (page("python", "x = = 1"), f"{PAGE}:4: invalid syntax"),
    (page("python", "def test_it(orderly_fake):", "    assert 0"), f"{PAGE}:5: AssertionError"),
    (page("python", "x = 1", mark="raises ConfigError"), "raises nothing"),
    (page("python", "# test_it.py", "def test_it():", "    assert 0"), "1 failed"),
    (page("python", "# program.py", "import nothing_there"), "program.py: 1"),
    (page("console", "$ orderly topic list", "payments"), f"{PAGE}:4: shows the line\npayments"),
    (page("console", "$ orderly topic show orders"), "exit code 3, not 0"),
    (page("console", "$ orderly topic list", "$ echo $?", "1"), f"{PAGE}:5: shows"),
    (page("console", "$ pip install 'rocketmq-orderly[moon]'"), "no such extra: moon"),
    (page("console", "$ make coffee"), "no such target: coffee"),
    (page("sh", "python -m benchmarks.moon", mark="parsed"), "no such module: benchmarks.moon"),
    (page("sh", "python -m benchmarks.soak --moon", mark="parsed"), "soak has no --moon"),
    (page("console", "$ moonwalk --fast"), "moonwalk is not known"),
    (page("sh", "orderly topic list --moon", mark="parsed"), f"{PAGE}:4: No such option '--moon'"),
    (page("console", "$ orderly broker begin"), "no such command 'begin'"),
    (page("console", "orderly topic list"), "no line begins with `$ `"),
    (page("console", "$ python -c 'print(1)'", "never", mark="ctrl-c"), "shows the line"),
    (page("sh", "kubectl apply -f nowhere.yaml"), "no such file: nowhere.yaml"),
    (page("toml", "[contexts.prod]", "nameserver = 'mq-1:9876'"), f"{PAGE}:4: ConfigError"),
    (page("yaml", "a: [1"), f"{PAGE}:4: ParserError"),
    (page("json", "{"), f"{PAGE}:4: JSONDecodeError"),
    (page("promql", "orderly_moon_phase > 1"), "the exporter has no orderly_moon_phase"),
    (page("sql", "SELEKT 1"), f"{PAGE}:4: OperationalError"),
    (page("properties", "no value"), "no KEY=VALUE"),
    (page("dockerfile", "FORM debian"), "no instruction"),
    (page("text", "$ orderly topic list"), "tag it `console`"),
    (page("klingon", "nuqneH"), "nobody knows how to check 'klingon'"),
]


@pytest.mark.parametrize(("text", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_told(text, told, tmp_path, request):
    with pytest.raises(BadPage) as raised:
        run_blocks(PAGE, parse(PAGE, text), tmp_path, request)
    assert told in str(raised.value)


FORGOTTEN = [
    "import threading",
    "from tests.docs import room",
    "threading.Thread(target=room.told.wait, args=(60,), name='orderly-forgotten').start()",
]


def test_what_is_left_running_is_told(tmp_path, request, monkeypatch):
    monkeypatch.setattr(room, "SOON", 0.2)
    monkeypatch.setattr(room, "told", threading.Event(), raising=False)
    try:
        with pytest.raises(BadPage, match="goes on after its end: orderly-forgotten"):
            run_blocks(PAGE, parse(PAGE, page("python", *FORGOTTEN)), tmp_path, request)
    finally:
        room.told.set()


RIGHT = [
    page("python", "import asyncio", "await asyncio.sleep(0)"),
    page(
        "python",
        "import orderly",
        "orderly.ClientConfig(request_timeout=0)",
        mark="raises ConfigError",
    ),
    page("python", "import threading", "begun = 1", "threading.Event().wait()", mark="ctrl-c"),
    page("python", "import asyncio", "begun = 1", "await asyncio.sleep(60)", mark="ctrl-c"),
    page("console", "$ orderly topic create orders --queues \\", "    4  # so many", "… orders …"),
    page("console", "$ orderly topic show orders", "$ echo $?", "3"),
    page("console", "$ orderly topic show orders", mark="exit 3"),
    page("console", "$ echo one | cat", "one"),
    page("sh", "orderly topic list -o json && less x", mark="parsed"),
    page("java", "class A {}"),
]


@pytest.mark.parametrize("text", RIGHT, ids=range(len(RIGHT)))
def test_what_is_right_passes(text, tmp_path, request, monkeypatch):
    monkeypatch.setattr(room.Room, "is_done", lambda its: "begun" in its.names)
    run_blocks(PAGE, parse(PAGE, text), tmp_path, request)


def test_a_block_that_ctrl_c_kept_from_running_has_not_passed(tmp_path, request, monkeypatch):
    monkeypatch.setattr(room.Room, "is_done", lambda _room: True)
    monkeypatch.setattr(python_blocks, "_execute", lambda *_: threading.Event().wait(60))
    with pytest.raises(BadPage, match="met none of its lines"):
        run_blocks(PAGE, parse(PAGE, page("python", "x = 1", mark="ctrl-c")), tmp_path, request)


BAD_PAGES = [
    (page("", "x"), f"{PAGE}:3: give the block a language"),
    (page("text", "x", mark="skip"), "say why"),
    (page("text", "x", mark="moon"), "'moon' is no word"),
    ("<!-- block: numbers -->\ntext\n", f"{PAGE}:2: a block's comment stands before no block"),
    ("```text\n", "not closed"),
]


@pytest.mark.parametrize(("text", "told"), BAD_PAGES, ids=[told for _, told in BAD_PAGES])
def test_a_page_against_the_conventions_is_refused(text, told):
    with pytest.raises(BadPage) as raised:
        parse(PAGE, text)
    assert told in str(raised.value)


def test_blocks_in_lists_and_of_backticks():
    text = "- one\n\n  ```python\n  x = 1\n  ```\n\n````text\n```\n````\n"
    found = [(block.tag, block.line, block.text) for block in parse(PAGE, text)]
    assert found == [("python", 4, "x = 1\n"), ("text", 8, "```\n")]


@pytest.mark.parametrize(
    ("shown", "actual", "lacks"),
    [
        (["a", "c"], ["a", "b", "c"], None),
        (["c", "a"], ["a", "b", "c"], "a"),
        (["at 2026-11-21T15:00Z"], ["at   2027-01-01T00:00:00.5Z"], None),
        (["in 5 s"], ["in 12 s"], None),
        (["5 messages"], ["6 messages"], "5 messages"),
        (["from … to b"], ["from a to b"], None),
        (["…"], [], None),
    ],
    ids=str,
)
def test_outputs_are_compared(shown, actual, lacks):
    assert missing(shown, actual) == lacks


def test_numbers_may_be_compared_by_shape():
    assert missing(["5 messages, 1.5 MB"], ["6000 messages, 0.2 MB"], numbers=True) is None


def test_a_line_is_split_into_commands():
    line = "A=1 docker run --rm x | jq . && cat 'a b'"
    assert commands(line) == [["docker", "run", "--rm", "x"], ["jq", "."], ["cat", "a b"]]


@pytest.mark.parametrize(
    "line", ["make test", "pip install '.[cli,embedded]'", "env/bin/pip install x"]
)
def test_nothing_is_said_against_good_commands(line):
    assert objection(commands(line)[0]) == ""
