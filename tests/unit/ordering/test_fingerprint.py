"""The same failure has the same fingerprint everywhere, and nothing of the message is in it."""

import json
import pickle
import re
import subprocess
import sys
import textwrap
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import HandlerHung, WorkerDied
from orderly.ordering.fingerprint import _texts_of, answered, fingerprint

CONTENT = st.text(st.characters(categories=("L", "N", "P", "S", "Z")), max_size=30)


class Refused(Exception):
    pass


class Status(Exception):
    def __init__(self, code):
        super().__init__(f"status {code}")
        self.status_code = code


def raised(function, *given):
    try:
        function(*given)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def of(function, *given):
    return fingerprint(raised(function, *given))


def refuse(value):
    raise Refused(f"no such customer {value} in this shop")


def refuse_elsewhere(value):
    raise Refused(f"no such customer {value} in this shop")


def chained(value):
    try:
        return {"amount": 1}[value]
    except KeyError as error:
        raise Refused("bad order") from error


def in_context(times, value="x"):
    try:
        int(value)
    except ValueError:
        if times:
            in_context(times - 1, value)
        raise Refused("gave up")  # noqa: B904 - the context is what is tested


def grouped(*functions):
    raise ExceptionGroup("tasks", [raised(function, number) for number, function in functions])


def endless(depth):
    return endless(depth + 1) if depth % 2 else len([endless(depth + 1)])


@given(CONTENT, CONTENT)
def test_values_in_the_text_change_nothing(one, other):
    of_the_frames = "no such customer in this shop", "it did not raise"
    known = {word for text in of_the_frames for word in text.split()}
    if known.isdisjoint(re.findall(r"\w+", f"{one} {other}")):
        assert of(refuse, f"x9{one}9x") == of(refuse, f"x9{other}9x")


@pytest.mark.parametrize(
    "value",
    [
        "17", "-1.5e3", "0xdeadbeef", "6b1f0c6e-8d5c-4c6e-9b5e-6d2f6f1b7a11", "'quoted Smith'",
        "2026-11-21T08:00:00Z", "smith@example.org", "x" * 100_000, "", "\x1b[31mred",
    ],
)  # fmt: skip
def test_of_a_text_only_the_codes_own_words_remain(value):
    assert of(refuse, value).text.startswith(f"{__name__}.Refused: no such customer")
    assert of(refuse, value) == of(refuse, "Jones")
    for word in ("Smith", "deadbeef", "xxxx", "2026", "\x1b"):
        assert word not in of(refuse, value).text


@given(st.dictionaries(CONTENT, CONTENT, min_size=1), st.text(min_size=1))
def test_no_word_of_the_message_is_in_it(body, name):
    secret = f"{name}secretword"

    def handle():
        raise ValueError(f"cannot take {body} of {secret}", body, secret)

    assert "secretword" not in of(handle).text


def test_a_missing_field_that_the_code_names_is_named():
    assert "KeyError: amount" in of(lambda: {}["amount"]).text
    assert "KeyError (" in of(lambda key: {}[key], "order-1001").text


@pytest.mark.parametrize(
    ("constants", "texts"),
    [
        (("late", "order is ", ("late", "lost")), ["order is "]),  # as Python 3.14 keeps them
        ((None, ("late", "lost"), "order is "), ["order is "]),  # as others do
        (("x", "order is ", frozenset({"x"})), ["order is "]),
        (("a docstring", "late", ("late", 1)), ["a docstring", "late"]),  # it is there by itself
    ],
)
def test_one_of_a_choice_of_values_is_no_word_of_the_code(constants, texts):
    assert _texts_of(types.SimpleNamespace(co_consts=constants)) == texts


def test_texts_made_in_c_vanish_but_not_their_class():
    assert of(int, "12x") == of(int, "Smith")
    assert of(lambda: int("x" + "12")).text.startswith("ValueError (")


def test_another_function_class_or_number_is_another_failure():
    prints = [
        of(refuse, 1), of(refuse_elsewhere, 1), of(chained, "x"), of(in_context, 0),
        of(lambda: Status(400) and (_ for _ in ()).throw(Status(400))),
    ]  # fmt: skip
    assert len({each.digest for each in prints}) == len(prints)


def test_a_status_tells_a_bad_request_from_a_dead_server():
    def respond(code):
        raise Status(code)

    assert of(respond, 400) != of(respond, 503)
    assert "Status[400]" in of(respond, 400).text
    assert of(respond, 123_456_789) == of(respond, 987_654_321)


def test_a_response_tells_it_where_the_error_does_not():
    def respond(code):
        error = Refused("no")
        error.response = types.SimpleNamespace(status_code=code)
        raise error

    assert "Refused[503]" in of(respond, 503).text
    assert of(respond, 503) != of(respond, 400)
    assert "[" not in of(respond, None).text


def test_the_main_program_has_one_name_also_in_a_worker_process():
    def at(module):
        scope = {"__name__": module}
        exec("def fail(): raise LookupError", scope)
        return of(scope["fail"]).text

    assert "__main__:fail" in at("__mp_main__") == at("__main__") != at("other")


@pytest.mark.parametrize("name", ["sqlstate", "pgcode"])  # of psycopg 3 and 2
def test_a_databases_state_is_part_of_it_and_no_other_text_is(name):
    def refuse_with(state):
        error = Refused("no")
        setattr(error, name, state)
        raise error

    assert "Refused[23505]" in of(refuse_with, "23505").text
    assert of(refuse_with, "jane") == of(refuse_with, "joan") != of(refuse_with, "23505")


def test_the_chain_is_part_of_it():
    assert "Refused" in of(chained, "x").text
    assert " from KeyError" in of(chained, "x").text
    error = raised(chained, "x")
    error.__cause__ = None
    assert " from " not in fingerprint(error).text  # suppressed, as a traceback shows it


def test_trying_again_does_not_change_it():
    assert of(in_context, 0) == of(in_context, 1) == of(in_context, 30)


def test_a_chain_that_bites_its_tail_ends():
    one, other = Refused("a"), Refused("b")
    one.__cause__, other.__cause__ = other, one
    assert fingerprint(one).digest


def test_tasks_of_a_group_may_fail_in_any_order_and_number():
    two = of(grouped, (1, refuse), (2, chained))
    assert two == of(grouped, (2, chained), (3, refuse), (4, refuse))
    assert two != of(grouped, (1, refuse))
    assert "{" in two.text


def test_the_members_of_a_group_are_sorted():
    kinds = [type(name, (Exception,), {}) for name in "FBHACGED"]
    members = fingerprint(ExceptionGroup("tasks", [kind() for kind in kinds])).text
    names = [part.strip("{}")[-1] for part in members.split(" | ")]
    assert names == sorted("FBHACGED")


def test_where_the_stack_ends_does_not_matter():
    shallow, deep = of(endless, 0), of(lambda: of(endless, 0) and endless(1))
    assert shallow == of(endless, 1)
    assert "endless" not in shallow.text  # only where the handler was called
    assert deep.text.startswith("RecursionError (")


def test_frames_of_libraries_do_not_count_unless_nothing_else_is_left():
    assert "json" not in of(lambda: json.loads("{")).text.partition("(")[2]
    error = raised(json.loads, "{")
    error.__traceback__ = error.__traceback__.tb_next  # as if a library had called it
    assert "json:loads" in fingerprint(error).text


def test_an_installed_users_package_is_the_users():
    path = "/venv/lib/python3.11/site-packages/shop/ship.py"
    module = types.ModuleType("shop.ship")
    exec(compile("def parse(x):\n    return int(x)\n", path, "exec"), module.__dict__)
    assert "shop.ship:parse" not in of(module.parse, "x").text
    assert "shop.ship:parse" in fingerprint(raised(module.parse, "x"), own="shop").text


def test_this_librarys_frames_never_count():
    module = types.ModuleType("orderly.listener.any")
    exec("def call(function, given):\n    return function(given)\n", module.__dict__)
    assert "orderly" not in of(module.call, refuse, 1).text
    error = raised(module.call, refuse, 1)
    error.__traceback__ = error.__traceback__.tb_next
    assert fingerprint(error).text.endswith(f"({__name__}:refuse)")


PROGRAM = """
    import sys
    from orderly.ordering.fingerprint import fingerprint

    {padding}
    def handle(name):
        raise LookupError(f"no account of {{name}} at {{object()}}")

    try:
        handle(sys.argv[1])
    except LookupError as error:
        found = fingerprint(error)
        print(found.digest, found.text)
"""


def test_it_is_the_same_in_another_process_place_and_line(tmp_path):
    lines = []
    for name, padding in (("smith", ""), ("jones", "PADDING = 1")):
        program = tmp_path / name / "service.py"
        program.parent.mkdir()
        program.write_text(textwrap.dedent(PROGRAM.format(padding=padding)))
        command = [sys.executable, str(program), name]
        lines.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert lines[0] == lines[1]
    assert str(tmp_path) not in lines[0]


def died(exit_code, cause):
    error = WorkerDied("gone", exit_code=exit_code)
    error.__cause__ = cause
    return error


def test_how_the_pipe_of_a_dead_worker_broke_is_chance_but_its_exit_code_is_not():
    one, other = (fingerprint(died(-9, cause)) for cause in (EOFError(), ConnectionResetError(104)))
    assert one == other
    assert fingerprint(died(-11, EOFError())) != one
    hung = [HandlerHung("too long") for _ in range(2)]
    hung[0].__cause__, hung[1].__cause__ = died(-9, EOFError()), died(-9, OSError(32))
    assert fingerprint(hung[0]) == fingerprint(hung[1])


def test_a_users_class_may_do_anything():
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError

        def __getattr__(self, name):
            raise RuntimeError(name)

    assert "Hostile" in fingerprint(Hostile()).text


def test_it_is_short_and_travels_between_processes():
    kind = type("E" * 10_000, (Exception,), {})
    found = fingerprint(raised(lambda: (_ for _ in ()).throw(kind("word " * 100_000))))
    assert len(found.digest) == 16
    assert len(found.text) <= 500
    assert pickle.loads(pickle.dumps(found)) == found


def test_an_answers_reason_is_read_in_the_same_way():
    def handle(name):
        return f"no stock for {name}"

    code = handle.__code__
    one, other = (answered("Fail", handle(name), code) for name in ("smith", "jones"))
    assert one == other
    assert one.text == "answered Fail: no stock for"
    assert answered("Fail", "whatever smith", code).text == "answered Fail"
