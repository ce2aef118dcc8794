"""docs/reference/events.md names every event of the library, its levels, logger and fields.

It names no other event. The sources are read, not run. So an event's name must stand in them: as a
text, as texts of a conditional expression, or as the argument of a function that passes its
parameter `event` on.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import orderly
from orderly.log import where
from tests.frozen.tables import EVENTS, events

ROOT = Path(orderly.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
OF_EVERY_EVENT = {*where("group"), "client_id", "error", "exc_info", "hint"}
GIVEN = {"client/state_topics.py": "consumer"}  # these log to what a consumer gives them
FOR_A_PROCESSOR = {"redact"}  # it acts upon it, and takes it away


class Function:
    """One function of a module: its calls, and what its names stand for."""

    def __init__(self, path, logger, node):
        self.path, self.logger, self.name = path, logger, node.name
        self.parameters = [each.arg for each in node.args.args if each.arg != "self"]
        self.calls = []
        self._values = defaultdict(list)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and inner.args:
                self.calls.append(called(inner))
            elif isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                self._values[inner.targets[0].id].append(inner.value)

    def levels(self, callee):
        """At which levels a call logs; none if it is not a logger's."""
        if isinstance(callee, ast.Name):  # emit = log.info if … else log.warning
            parts = [part for value in self._values[callee.id] for part in ast.walk(value)]
            return {level for part in parts for level in level_of(part)}
        return set(level_of(callee))

    def texts(self, expression):
        """What an expression may be; nothing if the function does not say that."""
        match expression:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp(body=one, orelse=other):
                return self.texts(one) | self.texts(other)
            case ast.Name(id=name):
                return set().union(*map(self.texts, self._values[name]))
        return set()


def called(call):
    """Function, arguments, names and line of a call; of a partial those that it is to have."""
    names = {each.arg for each in call.keywords if each.arg is not None}
    if last_name(call.func) == "partial":
        return call.args[0], call.args[1:], names, call.lineno
    return call.func, call.args, names, call.lineno


def last_name(expression):
    """`c` of `a.b.c`, or of `c`."""
    return getattr(expression, "attr", getattr(expression, "id", ""))


def level_of(expression):
    """The level of `log.info`, `self._log.info`; nothing of anything else."""
    level = last_name(expression)
    if isinstance(expression, ast.Attribute) and level in LEVELS:
        is_logger = last_name(expression.value).strip("_") == "log"
        return ["error" if level == "exception" else level] * is_logger
    return []


def functions(path, text):
    """All of a module. Its logger is the one it asks for, or that of its package."""
    asked = re.search(r'get_logger\(\s*"orderly\.(\w+)"', text)
    file = path.relative_to(ROOT)
    logger = asked[1] if asked else GIVEN.get(file.as_posix(), file.parts[0])
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [Function(path, logger, n) for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]


class Reading:
    """What functions emit.

    Attributes:
        emitted: {event: {(level, logger)}}.
        fields: {event: {name}}, of those that stand beside its name.
        unknown: the calls whose event's name is not known.
    """

    def __init__(self, found):
        self.emitted, self.fields, self.unknown = defaultdict(set), defaultdict(set), []
        self._passing = {}  # functions that pass on their `event`: where it is, at which levels
        for function in found:
            for call in function.calls:
                self._read(function, *call)
        for function in found:
            for call in function.calls:
                self._read_passed(function, *call)

    def _read(self, function, callee, arguments, names, line):
        levels = {(level, function.logger) for level in function.levels(callee)}
        if levels and last_name(arguments[0]) == "event" and "event" in function.parameters:
            position = function.parameters.index("event")
            self._passing[function.name, function.path] = position, levels
        elif levels:
            self._note(function, arguments[0], names, levels, line)

    def _read_passed(self, function, callee, arguments, names, line):
        for (name, path), (position, levels) in self._passing.items():
            if name == last_name(callee) and (path == function.path or not name.startswith("_")):
                self._note(function, arguments[position], names, levels, line)

    def _note(self, function, expression, names, levels, line):
        texts = function.texts(expression)
        for event in texts:
            self.emitted[event] |= levels
            self.fields[event] |= names
        if not texts:
            self.unknown.append(f"{function.path}:{line}")


@cache
def of_the_library():
    paths = [p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] != "testing"]
    return Reading([f for path in paths for f in functions(path, path.read_text())])


def test_the_table_names_what_is_emitted_and_nothing_else():
    found, rows = of_the_library(), events()
    assert found.unknown == [], "the source does not say the event's name"
    table = {
        name: {(level, logger) for level in levels} for name, (levels, logger, _) in rows.items()
    }
    assert table == found.emitted
    assert EVENTS.read_text().count("\n| `") == len(table), "one row each"


def test_the_table_has_every_field_that_stands_beside_an_event():
    known = OF_EVERY_EVENT | FOR_A_PROCESSOR
    told = {name: fields for name, (_, _, fields) in events().items()}
    fields = of_the_library().fields
    assert {name: left for name in fields if (left := fields[name] - told[name] - known)} == {}


def test_names_are_a_thing_and_what_happened_to_it():
    names = of_the_library().emitted
    assert [name for name in names if not re.fullmatch(r"[a-z_]+\.[a-z_]+", name)] == []


WARN = "\ndef _warn(self, x, event):\n    self._log.warning(event)"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("held.log.info('a.b')", {"a.b": {"info"}}),
        ("self._log.exception('a.b')", {"a.b": {"error"}}),
        ("log.info('a.b' if x else 'a.c')", {"a.b": {"info"}, "a.c": {"info"}}),
        ("event = 'a.b'; log.info(event)", {"a.b": {"info"}}),
        ("emit = log.info if x else log.error; emit('a.b')", {"a.b": {"info", "error"}}),
        ("self._warn(1, 'a.b')", {"a.b": {"warning"}}),
        ("partial(self._warn, 1, 'a.b', x=1)", {"a.b": {"warning"}}),
        ("math.log.inf('a.b'); book.info('a.b')", {}),
    ],
)
def test_what_a_function_emits_is_found(body, found):
    read = Reading(functions(ROOT / "consumer" / "x.py", f"def f(x): {body}{WARN}"))
    assert read.emitted == {event: {(each, "consumer") for each in found[event]} for event in found}
    assert read.unknown == []


def test_fields_of_an_event_are_found():
    body = "log.info('a.b', x=1, **more); self._warn(1, 'a.c', y=2)"
    read = Reading(functions(ROOT / "consumer" / "x.py", f"def f(x): {body}{WARN}"))
    assert read.fields == {"a.b": {"x"}, "a.c": {"y"}}


@pytest.mark.parametrize("body", ["log.info(f'{x}.b')", "log.info(x)", "self._warn(1, x)"])
def test_an_event_that_cannot_be_read_is_told(body):
    read = Reading(functions(ROOT / "consumer" / "x.py", f"def f(x): {body}{WARN}"))
    assert (read.emitted, len(read.unknown)) == ({}, 1)
