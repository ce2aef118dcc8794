"""matplotlib, tamed: a figure becomes inline SVG that follows the page's colours and fonts.

No pyplot, no window, no setting of the user's: equal figures give equal text. Colours are stood
in for by codes that become CSS variables, so that one plot serves light, dark and paper.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from orderly.monitoring.backlog.states import Verdict

WIDTH = 540  # of a plot, in the units of its text: CSS pixels, if the page does not scale it
TEXT = 11.0
_DPI = 72

INK, FAINT, LINE, PAPER = "#0c0001", "#0c0002", "#0c0003", "#0c0004"
COLORS = {
    Verdict.OK: "#0c0005",
    Verdict.WARNING: "#0c0006",
    Verdict.CRITICAL: "#0c0007",
    Verdict.UNKNOWN: "#0c0008",
}
SERIES = ("#0c0011", "#0c0012", "#0c0013", "#0c0014", "#0c0015")
_VARIABLES = {
    INK: "ink", FAINT: "faint", LINE: "line", PAPER: "card",
    **{code: f"fill-{verdict.name.lower()}" for verdict, code in COLORS.items()},
    **{code: f"series-{number}" for number, code in enumerate(SERIES, 1)},
}  # fmt: skip
_CODE = re.compile("|".join(_VARIABLES))
_NAME = re.compile(r'(\bid="|href="#|url\(#)')

_SETTINGS = {
    name: value
    for name, value in mpl.rcParamsDefault.items()
    if not name.startswith(("backend", "webagg"))
} | {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "orderly",  # else ids are random
    "text.parse_math": False,  # names are no formulas
    "font.size": TEXT,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "hatch.color": PAPER,
    "hatch.linewidth": 2.0,
}


def drawn(name: str, height: int, draw: Callable[[Figure], None]) -> str:
    """Draw one plot.

    Args:
        name: its own on the page: all ids in it begin so.
        height: of the plot; it is WIDTH wide.
        draw: fills the figure.

    Returns:
        An <svg> element. Texts in it are escaped.
    """
    text = io.StringIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # browsers have it
        figure = Figure(figsize=(WIDTH / _DPI, height / _DPI), dpi=_DPI)
        FigureCanvasSVG(figure)
        draw(figure)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", dpi=_DPI, metadata=nothing, transparent=True)
    return _inline(text.getvalue(), name)


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    parts = re.split(r"(<text[^>]*>[^<]*</text>)", svg)
    parts[::2] = [_named(_colored(part), name) for part in parts[::2]]
    parts[1::2] = [_text(part) for part in parts[1::2]]
    return "".join(parts)


def _text(element: str) -> str:
    """Colours of the element itself, not of what stands in it."""
    head, mark, rest = element.partition(">")
    return _colored(head) + mark + rest


def _colored(svg: str) -> str:
    return _CODE.sub(lambda found: f"var(--{_VARIABLES[found[0]]})", svg)


def _named(svg: str, name: str) -> str:
    return _NAME.sub(rf"\g<1>{name}-", svg)


def plain_axes(figure: Figure, left: int, right: int, top: int, bottom: int) -> Axes:
    """Axes with these margins, and without a frame."""
    width, height = (side * _DPI for side in figure.get_size_inches())
    area = (left / width, bottom / height)
    size = ((width - left - right) / width, (height - top - bottom) / height)
    axes = figure.add_axes((*area, *size))
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    return axes
