"""A page of any report: one file without scripts, that loads nothing.

`frame.html` has what all have: head, policy, verdict, foot; a report's own template extends it.
All text is escaped; the page's own policy forbids what could act if something were not.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from orderly.foreign_text import escaped
from orderly.monitoring.reporting import words

_OURS = ("frame.html", "pieces.html")


def page(package: str, template: str, **values: Any) -> str:
    """Fill in a template.

    Args:
        package: that the template is a file of.
        template: its name; it extends `frame.html`, which wants `it.verdict` and `it.headline`.
        values: for both.

    Returns:
        A whole HTML document.
    """
    css = Markup(_source(__package__, "report.css"))  # noqa: S704  our own file
    return _environment(package).get_template(template).render(css=css, **values)


def drawing(svg: str) -> Markup:
    """A plot of `drawing.drawn`, whose texts are escaped, to stand on the page as it is."""
    return Markup(svg)  # noqa: S704


def _environment(package: str) -> Environment:
    environment = Environment(
        loader=FunctionLoader(
            lambda name: _source(__package__ if name in _OURS else package, name)
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters |= {
        "duration": words.duration,
        "count": words.count,
        "rate": words.rate,
        "clock": words.clock,
    }
    environment.globals |= {"plural": words.plural, "NOT_KNOWN": words.NOT_KNOWN}
    return environment


def _finalized(value: Any) -> Any:
    """What is printed: nothing invisible in a text from elsewhere, and never `None`."""
    if isinstance(value, Markup):
        return value
    return words.NOT_KNOWN if value is None else escaped(str(value))


def _source(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text("utf-8")
