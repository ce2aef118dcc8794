"""What the jobs on Spark write with `-o json`: their result.json, of results made by hand."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.audit.figures import headline
from orderly.spark.jobs.origin import origin
from orderly.spark.offsets import QueueRange
from tests.unit.spark.jobs.audit.test_report import SETTINGS, WRONG
from tests.unit.spark.jobs.replay.test_report import DRY, OBJECTION

READ = (QueueRange(MessageQueue("orders", "broker-a", 0), 0, 10),)


def job_documents() -> dict[str, list[Any]]:
    """By the command's words."""
    audited = origin("audit", READ, SETTINGS.document()).document(WRONG.verdict, asdict(WRONG))
    audited["headline"] = headline(WRONG, SETTINGS.seq_property)
    found = replace(DRY, sent=5, objections=(OBJECTION,)).figures()
    replayed = origin("replay", READ, {"topic": "orders"}).document(Verdict.OK, found)
    made = {"spark audit": audited, "spark replay": replayed}
    return {words: [json.loads(json.dumps(it))] for words, it in made.items()}
