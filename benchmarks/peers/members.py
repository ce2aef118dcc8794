"""Several of our processes in one group, working one backlog off together."""

import contextlib

from benchmarks.peers.launch import Run, line, python, started

PROGRAM = "benchmarks.peers.programs.ours"


def together(bench, topic, group, members):
    """One run of so many members; they join first, and begin at the same moment.

    Returns:
        A Run: messages of all, from the first one timed to the last.

    Raises:
        SideFailed: a member failed, or they did not share the queues evenly.
    """
    depths = bench.depths(topic)
    command = [*python(PROGRAM), "member", bench.namesrv, group, topic, len(depths) // members]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(command)) for _ in range(members)]
        shares = [line(process)["queues"] for process in processes]
        for process, queues in zip(processes, shares, strict=True):
            process.stdin.write(f"{sum(depths[queue] for queue in queues)}\n")
            process.stdin.flush()
        said = [line(process) for process in processes]
    return Run(
        messages=sum(one["messages"] for one in said),
        seconds=max(one["ended_at"] for one in said) - min(one["started_at"] for one in said),
        cpu_seconds=sum(one["cpu_seconds"] for one in said),
        rss_mib=max(one["rss_mib"] for one in said),
    )
