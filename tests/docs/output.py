"""Whether a console block shows what really comes out.

Shown lines must come in their order; others may stand between them. `…` stands for anything, and
what differs from run to run (times, durations, ids, ports) is compared by its shape.
"""

import re

SHAPES = (
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b(?:127\.0\.0\.1|localhost):\d+", "ADDRESS"),
    (r"\b(?:\d+(?:\.\d+)? ?(?:ms|min|s|m|h|d)\b ?)+", "DURATION "),
    (r"\b[0-9a-f]{8,}(?:-[0-9a-f]+)*\b", "ID"),
)
_ANY_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
_ELLIPSIS = re.compile(r"…|\.\.\.")


def missing(shown, actual, *, numbers=False):
    """The first shown line that does not come, or None.

    Args:
        shown: lines of the page.
        actual: the lines that came.
        numbers: compare every number by its shape.
    """
    lines = iter([_shape(line, numbers) for line in actual])
    for line in shown:
        if not _ELLIPSIS.sub("", line).strip():
            continue
        wanted = _pattern(_shape(line, numbers))
        if not any(wanted.fullmatch(line) for line in lines):
            return line
    return None


def _shape(line, numbers):
    for pattern, name in SHAPES:
        line = re.sub(pattern, name, line)
    if numbers:
        line = _ANY_NUMBER.sub("NUMBER", line)
    return " ".join(line.split())


def _pattern(line):
    return re.compile(".*".join(re.escape(part) for part in _ELLIPSIS.split(line)))
