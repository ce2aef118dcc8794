"""The tree of errors: what each class says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from docsite.docstrings import opening
from docsite.markdown import block, code, prose
from orderly import errors

CLASSES: Mapping[str, type[errors.OrderlyError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.OrderlyError)
}


def tree() -> str:
    """The drawing of the tree."""
    drawing = (errors.__doc__ or "").partition("    OrderlyError\n")[1:]
    lines = "".join(drawing).split("\n\n")[0]
    return block(inspect.cleandoc("    " + lines.lstrip()))


def facts(name: str) -> str:
    """When an error of a class is raised, and what the class answers."""
    kind = CLASSES[name]
    parents = ", ".join(_parent(each) for each in kind.__bases__)
    answers = f"`retriable` {kind.retriable}, `refresh_route` {kind.refresh_route}"
    said = "\n\n".join(prose(each) for each in opening(kind).split("\n\n"))
    anchor = f"[](){{ #orderly.errors.{name} }}"  # what API pages link to
    return f"{anchor}\n\n<small>a kind of {parents}; {answers}</small>\n\n{said}"


def _parent(kind: type) -> str:
    if kind.__name__ in CLASSES:
        return f"[{code(kind.__name__)}](#{kind.__name__.lower()})"
    return code(kind.__name__)
