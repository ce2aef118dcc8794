"""Each ratio as a bar beside its goal. Bars begin at 1, where both sides are even."""

from benchmarks.peers.goals import GOALS, SUFFIXES

_LABELS = {"": "128 B", "_1k": "1 KiB"}
_COLORS = {"": "#2b6ca3", "_1k": "#8fbbda"}
_BAR = 0.36  # of the place of a ratio


def draw(report, path):
    """Write the picture; ratios that were not measured are left out."""
    import matplotlib as mpl  # noqa: PLC0415 - optional: extra `monitoring`

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams["svg.hashsalt"] = "peers"  # the same figures give the same file
    panels = [
        ("more is better", [goal for goal in _ratios(report) if goal.at_least]),
        ("less is better", [goal for goal in _ratios(report) if not goal.at_least]),
    ]
    panels = [(title, goals) for title, goals in panels if goals]
    heights = [len(goals) for _, goals in panels]
    figure, axes = plt.subplots(
        len(panels),
        figsize=(8, 1.6 + 0.55 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for ax, (title, goals) in zip(axes[:, 0], panels, strict=True):
        _panel(ax, title, goals, report["ranges"])
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _ratios(report):
    """Goals of ratios (not of memory, seconds or counts) that were measured, last one first."""
    measured = [
        goal
        for goal in GOALS.values()
        if "_vs_" in goal.name
        and any(report["ranges"].get(goal.name + s) for s in SUFFIXES.values())
    ]
    return measured[::-1]


def _panel(ax, title, goals, ranges):
    for place, suffix in ((_BAR / 2, ""), (-_BAR / 2, "_1k")):
        _bars(ax, goals, ranges, suffix, place)
    for row, goal in enumerate(goals):
        ax.plot([goal.bound] * 2, [row - _BAR, row + _BAR], color="#c0392b", linewidth=2)
    ax.plot([], [], color="#c0392b", linewidth=2, label="goal")
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.08)
    ax.set_yticks(range(len(goals)), [goal.name for goal in goals])
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, frameon=False)


def _bars(ax, goals, ranges, suffix, place):
    rows = [(row, ranges.get(goal.name + suffix)) for row, goal in enumerate(goals)]
    rows = [(row + place, spread) for row, spread in rows if spread]
    medians = [spread["median"] for _, spread in rows]
    reach = [
        [spread["median"] - spread["min"] for _, spread in rows],
        [spread["max"] - spread["median"] for _, spread in rows],
    ]
    ax.barh(
        [row for row, _ in rows],
        [median - 1 for median in medians],
        left=1,
        height=_BAR,
        xerr=reach,
        color=_COLORS[suffix],
        error_kw={"linewidth": 0.8, "ecolor": "#555555"},
        label=_LABELS[suffix],
    )
    for row, spread in rows:
        _label(ax, row, spread)


def _label(ax, row, spread):
    """The median's number, beyond the end of its bar and range."""
    right = spread["median"] >= 1
    ax.annotate(
        f"{spread['median']:.2f}",
        (spread["max"] if right else spread["min"], row),
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=7,
    )
