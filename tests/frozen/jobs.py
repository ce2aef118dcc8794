"""What the jobs on Spark write with `-o json`: their result.json, of results made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.audit.run import told
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.progress import silent
from orderly.spark.jobs.skew.judging import findings
from orderly.spark.offsets.ranges import QueueRange
from tests.unit.spark.jobs.archive.test_result import result as archived
from tests.unit.spark.jobs.audit.test_report import SETTINGS, WRONG
from tests.unit.spark.jobs.backlog.test_findings import found as watched
from tests.unit.spark.jobs.backlog.test_findings import group
from tests.unit.spark.jobs.poison.test_result import WAITING
from tests.unit.spark.jobs.replay.test_result import DRY, OBJECTION
from tests.unit.spark.jobs.skew.test_findings import HOT, counted

READ = (QueueRange(MessageQueue("orders", "broker-a", 0), 0, 10),)


def job_documents() -> dict[str, list[Any]]:
    """By the command's words."""
    judged: Any = SimpleNamespace(figures=WRONG, tables=None)
    audited = told(judged, READ, SETTINGS, None, silent).document
    figures = {
        "archive": archived(lost=2, rows=8).figures(),
        "backlog": watched(group()).figures(),
        "poison": WAITING.figures(),
        "replay": replace(DRY, sent=5, objections=(OBJECTION,)).figures(),
        "skew": findings(counted(HOT), "", redact=False).figures(),
    }
    made = {
        f"spark {job}": origin(job, READ, {"topic": "orders"}).document(Verdict.OK, found)
        for job, found in figures.items()
    }
    return {words: [_read(it)] for words, it in {**made, "spark audit": audited}.items()}


def _read(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))
