"""Looks at a terminal become one SVG that plays them: no script, nothing loaded. Pure.

Each text that a row ever showed is an element with its times; a camera follows the last rows.
Where animations are not wanted, or not known, the end of the film is the picture; and it begins
with its end, for who takes a still of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from docs.pictures.recording import Look, Row

CELL, LINE, MARGIN = 7.7, 17, 14  # pixels
PAUSE = 0.7  # seconds that the film waits at most where nothing changed
LENGTH, REST = 24.0, 9.0  # seconds: the film at most, then its last picture
POSTER = 4.0  # seconds of that which come first
COLOURS = {
    "": "#d6d9de",
    "brightblack": "#8b929c",
    "red": "#f2777a",
    "green": "#8cc570",
    "brown": "#e6c15c",
    "blue": "#6ca8f7",
    "magenta": "#cf8df0",
    "cyan": "#56c8d8",
    "white": "#ffffff",
}
FONT = "13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
GROUND, BAR = "#1e2228", "#2b3038"
Span = tuple[int, int | None]
"""From which look to which; None: to the end."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A row's text from look to look; `until` None: to the end."""

    row: int
    text: Row
    since: int
    until: int | None


def film(looks: Sequence[Look], title: str, columns: int, height: int) -> str:
    """The SVG.

    Args:
        looks: the recording.
        title: in the window's bar; also what a reader who sees no picture is told.
        columns: of the terminal.
        height: rows to be seen at once.
    """
    times = _times([look.at for look in looks])
    length = times[-1] + REST
    percents = [100 * at / length for at in times]
    shown = _shown(looks)
    spans = sorted({(s.since, s.until) for s in shown}, key=lambda span: (span[0], span[1] or 0))
    names = {span: f"s{number}" for number, span in enumerate(spans) if span != (0, None)}
    rules = [_rule(name, percents, *span) for span, name in names.items()]
    tops = [max(0, len(look.rows) - height) for look in looks]
    camera = _camera(tops, percents)
    width, tall = columns * CELL + 2 * MARGIN, (height + 1) * LINE + 2 * MARGIN + LINE
    texts = "".join(_element(s, names.get((s.since, s.until), "")) for s in shown)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{tall}"'
        f' viewBox="0 0 {width:.0f} {tall}" role="img"><title>{escape(title)}</title><style>'
        f"text{{font:{FONT};fill:{COLOURS['']};white-space:pre}}"
        f".b{{font-weight:700}}{_colours(shown)}{_hidden(spans, names)}"
        f"@media (prefers-reduced-motion:no-preference){{.p{{animation:{length:.1f}s step-end"
        f" {POSTER - length:.1f}s infinite}}{camera}{''.join(rules)}}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>'
        f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16:.0f}a8 8 0 0 1 8 8v18h-{width:.0f}z"'
        f' fill="{BAR}"/>'
        f'<text x="50%" y="18" text-anchor="middle">{escape(title)}</text>'
        f'<svg y="{LINE + MARGIN}" height="{(height + 0.5) * LINE:.0f}" width="{width:.0f}">'
        f'<g class="p c" style="transform:translateY({-tops[-1] * LINE}px)">{texts}</g>'
        "</svg></svg>\n"
    )


def _times(moments: Sequence[float]) -> list[float]:
    """When each look is shown: long waits cut short, then all of it made to fit."""
    times = [0.0]
    for before, after in itertools.pairwise(moments):
        times.append(times[-1] + min(after - before, PAUSE))
    faster = max(1.0, times[-1] / LENGTH)
    return [at / faster for at in times]


def _shown(looks: Sequence[Look]) -> list[Shown]:
    """Every text of every row, with the looks between which it was there."""
    done: list[Shown] = []
    for row in range(max(len(look.rows) for look in looks)):
        texts = [look.rows[row] if row < len(look.rows) else () for look in looks]
        since = 0
        for number in range(1, len(texts) + 1):
            if number == len(texts) or texts[number] != texts[since]:
                until = None if number == len(texts) else number
                if texts[since]:
                    done.append(Shown(row, texts[since], since, until))
                since = number
    return done


def _rule(name: str, percents: Sequence[float], since: int, until: int | None) -> str:
    frames = [(0.0, "hidden")] if since else []
    frames.append((percents[since], "visible"))
    if until is not None:
        frames.append((percents[until], "hidden"))
    steps = "".join(f"{at:.2f}%{{visibility:{what}}}" for at, what in frames)
    return f".{name}{{animation-name:{name}}}@keyframes {name}{{{steps}}}"


def _camera(tops: Sequence[int], percents: Sequence[float]) -> str:
    moves = [
        f"{percent:.2f}%{{transform:translateY({-top * LINE}px)}}"
        for number, (top, percent) in enumerate(zip(tops, percents, strict=True))
        if number == 0 or top != tops[number - 1]
    ]
    return f".c{{animation-name:c}}@keyframes c{{{''.join(moves)}}}"


def _hidden(spans: Sequence[Span], names: Mapping[Span, str]) -> str:
    """Without animation only what is there at the end is seen."""
    gone = ",".join(f".{names[span]}" for span in spans if span[1] is not None)
    return f"{gone}{{visibility:hidden}}" if gone else ""


def _colours(shown: Sequence[Shown]) -> str:
    """Rules for the colours that occur; those without a name are six hexadecimal digits."""
    used = sorted({run.colour for s in shown for run in s.text if run.colour})
    return "".join(f".x{name}{{fill:{COLOURS.get(name, '#' + name)}}}" for name in used)


def _element(shown: Shown, name: str) -> str:
    y = (shown.row + 1) * LINE
    runs = "".join(
        f'<tspan x="{MARGIN + run.column * CELL:.1f}" textLength="{len(run.text) * CELL:.1f}"'
        f"{_classes(run.colour, bold=run.bold)}>{escape(run.text, quote=False)}</tspan>"
        for run in shown.text
    )
    named = f' class="p {name}"' if name else ""
    return f'<text y="{y}"{named} xml:space="preserve">{runs}</text>'


def _classes(colour: str, *, bold: bool) -> str:
    words = [word for word in (f"x{colour}" if colour else "", "b" if bold else "") if word]
    return f' class="{" ".join(words)}"' if words else ""
