"""The commands that replay what waits can be run as they are, whatever a key looks like."""

import shlex

from orderly.spark.jobs.poison.commands import script


def lines(text):
    found = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [line for line in found if line and line[0] == "orderly"]


def test_each_key_is_released_as_it_is():
    keys = ["plain", "a b", "$(reboot)", "-h", "it's", "new\nline"]
    text = script(
        "shipping", [("orders", key, False) for key in keys] + [("orders", "7", True)], []
    )
    words = shlex.split(text.partition("set -e")[2], comments=True)
    released = [words[n + 2] for n, word in enumerate(words) if word == "--"]
    assert released == [*keys, "7"]
    assert words[-4:] == ["--int", "--", "shipping", "7"]


def test_dead_letters_keep_their_order_over_several_commands():
    ids = [f"id{n}" for n in range(120)]
    found = lines(script("shipping", [], ids))
    assert [line[:4] for line in found] == [["orderly", "dlq", "replay", "--ids"]] * 3
    assert ",".join(line[4] for line in found).split(",") == ids


def test_what_is_left_out_is_said():
    assert "3 more keys" in script("shipping", [("orders", "a", False)], [], left_out=3)
    assert "7 more dead letters" in script("shipping", [], ["id1"], letters_left_out=7)
