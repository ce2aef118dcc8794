"""What the demo shows: steps, facts and events are lines; meters and queues are live.

In a pipe rich leaves out colours and cursor, and shows of what is live how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

INDENT = 3
WIDTH = 92
OWNER_STYLES = {"A": "cyan", "B": "magenta", "C": "green"}
REFRESH = 10  # drawings a second
Meter = Callable[[int], None]
"""Called with how much is done so far."""


@dataclass(frozen=True, slots=True)
class LaneView:
    """One queue being drained: of `total` messages `done` are consumed, by `owner` at present."""

    queue_id: int
    total: int
    done: int
    owner: str
    waiting: bool = False


LaneBoard = Callable[[Sequence[LaneView]], None]
"""Called with all lanes, a few times a second."""


class _Rate(ProgressColumn):
    """Things a second since the start."""

    def render(self, task: Task) -> Text:
        """The rate, or nothing before there is one."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="bold")


class Screen:
    """Where the demo shows its story: on a terminal with colours, bars and a view of the queues."""

    def __init__(self, stream: TextIO) -> None:
        width = None if stream.isatty() else WIDTH
        self._console = Console(file=stream, highlight=False, width=width)
        self._live = self._console.is_terminal
        self._width = min(WIDTH, self._console.width)
        self._good, self._bad = "+-" if self._console.options.ascii_only else "✓✗"
        self._steps = 0

    def title(self, text: str) -> None:
        """The first line."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def step(self, title: str, explanation: str) -> None:
        """A new step, and what happens in it: a numbered heading and a short paragraph."""
        self._steps += 1
        self._console.print()
        self._console.print(Text.assemble((f"{self._steps}  ", "bold blue"), (title, "bold")))
        self._indented(Text(explanation, style="dim"))

    def fact(self, text: str) -> None:
        """Something achieved: a line with a tick."""
        self._marked(self._good, "green", text)

    def event(self, text: str) -> None:
        """Something worth watching: a line with a mark, above the live part."""
        self._marked("!", "bold yellow", text)

    def note(self, text: str) -> None:
        """A dim line."""
        self._console.print(Text(text, style="dim"))

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Something takes a while and cannot say how long: a spinner, gone at the end."""
        with self._console.status(Text(text, style="dim"), spinner_style="dim"):
            yield

    @contextmanager
    def meter(self, label: str, total: int, unit: str = "") -> Iterator[Meter]:
        """A bar with rate and remaining time, gone at the end; unit "bytes" shows sizes."""
        counts: tuple[ProgressColumn, ...] = (
            (DownloadColumn(binary_units=True), TransferSpeedColumn())
            if unit == "bytes"
            else (TextColumn("{task.completed:,} of {task.total:,}"), _Rate())
        )
        progress = Progress(
            TextColumn(" " * INDENT + "{task.description}"),
            BarColumn(30),
            *counts,
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            transient=self._live,
            refresh_per_second=REFRESH,
        )
        with progress:
            task = progress.add_task(label, total=total)
            yield lambda done: progress.update(task, completed=done)

    @contextmanager
    def lanes(self) -> Iterator[LaneBoard]:
        """The queues while they are drained: a bar each that empties, coloured by its owner."""
        with Live(console=self._console, refresh_per_second=REFRESH, transient=self._live) as live:
            yield lambda lanes: live.update(_board(lanes))
        if not self._live:  # the last look stays, and rich does not end its line
            self._console.line()

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """The final table: what and how much."""
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self._indented(table)

    def verdict(self, ok: bool, text: str) -> None:
        """The last word, in one line."""
        mark, style = (self._good, "bold green") if ok else (self._bad, "bold red")
        self._console.print(Text(f"{mark} {text}", style=style))
        self._console.print()

    def _marked(self, mark: str, style: str, text: str) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(mark, style=style), Text(text))
        self._indented(grid)

    def _indented(self, content: Text | Table) -> None:
        self._console.print(Padding(content, (0, 0, 0, INDENT), expand=False), width=self._width)


def _board(lanes: Sequence[LaneView]) -> Group:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", min_width=INDENT + 8)
    grid.add_column(min_width=40)
    grid.add_column(justify="right", min_width=12)
    grid.add_column()
    for lane in lanes:
        style = OWNER_STYLES.get(lane.owner, "dim")
        left = lane.total - lane.done
        bar = ProgressBar(max(lane.total, 1), left, width=40, complete_style=style)
        state = "waits" if lane.waiting else ""
        owner = f"consumer {lane.owner}" if lane.owner else "nobody yet"
        grid.add_row(
            Text(f"queue {lane.queue_id}"),
            bar,
            Text(f"{left:,} left" if left else "drained"),
            Text.assemble((owner, style), "  ", (state, "yellow")),
        )
    return Group(Text(), grid)
