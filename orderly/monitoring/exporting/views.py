"""What the exporter answers, by path. It serves what is known and asks nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from orderly.monitoring.backlog.snapshot import GroupStatus, Snapshot
from orderly.monitoring.backlog.states import VERDICTS, Verdict
from orderly.monitoring.backlog_json import Detail, document
from orderly.monitoring.exporting.source import Exported
from orderly.monitoring.exporting.text import CONTENT_TYPE
from orderly.remoting.small_http import Answer, Question

HISTORY_SCHEMA = "orderly.history/v1"
MOST_QUEUES = 20_000  # in one JSON document: about 10 MB
_JSON = "application/json"
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}


class Views:
    """Answers questions from what is exported. Thread-safe.

    Args:
        exported: what is known.
    """

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        self._paths: Mapping[str, Callable[[Question], Answer]] = {
            **dict.fromkeys(_PAGE, _asset),
            "/metrics": self._metrics,
            "/healthz": self._live,
            "/readyz": self._ready,
            "/api/v1/backlog": self._backlog,
            "/api/v1/history": self._history,
        }

    def answer(self, question: Question) -> Answer:
        """Answer one question; any path that is not ours is not found."""
        view = self._paths.get(question.path)
        if view is None:
            return _error(HTTPStatus.NOT_FOUND, f"there is only {', '.join(self._paths)}")
        return view(question)

    def _metrics(self, question: Question) -> Answer:
        openmetrics = "application/openmetrics-text" in question.accept
        return Answer(self._exported.metrics(openmetrics=openmetrics), CONTENT_TYPE[openmetrics])

    def _live(self, _: Question) -> Answer:
        return _json({"live": True})

    def _ready(self, _: Question) -> Answer:
        why = self._exported.why_stale()
        status = HTTPStatus.OK if why is None else HTTPStatus.SERVICE_UNAVAILABLE
        return _json({"ready": why is None, "reasons": [] if why is None else [why]}, status)

    def _backlog(self, question: Question) -> Answer:
        """?detail=group|topic|bad-queues|queue and ?group=NAME."""
        snapshot = self._exported.snapshot
        if snapshot is None:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "no scan is complete yet")
        wanted = question.query.get("detail", Detail.BAD_QUEUES)
        if wanted not in list(Detail):
            return _error(HTTPStatus.BAD_REQUEST, f"detail is one of {', '.join(Detail)}")
        groups = _groups(snapshot, question)
        if groups is None:
            return _error(HTTPStatus.NOT_FOUND, "there is no such group")
        detail = Detail(wanted)
        if _queues(groups, detail) > MOST_QUEUES:
            text = f"more than {MOST_QUEUES} queues: name a group, or ask for detail=topic"
            return _error(HTTPStatus.BAD_REQUEST, text)
        return _json(document(snapshot, detail, groups=groups))

    def _history(self, question: Question) -> Answer:
        """?group=NAME and ?topic=NAME; without a group that of each."""
        snapshot = self._exported.snapshot
        groups = None if snapshot is None else _groups(snapshot, question)
        if groups is None:
            return _error(HTTPStatus.NOT_FOUND, "there is no such group")
        history, topic = self._exported.watched.history, question.query.get("topic")
        series = {each.group: history(each.group, topic) for each in groups}
        return _json({"schema": HISTORY_SCHEMA, "topic": topic, "groups": series})


def _groups(snapshot: Snapshot, question: Question) -> list[GroupStatus] | None:
    name = question.query.get("group")
    if name is None:
        return list(snapshot.groups.values())
    return [snapshot.groups[name]] if name in snapshot.groups else None


def _queues(groups: Iterable[GroupStatus], detail: Detail) -> int:
    """How many queues a document would name at most."""
    if detail not in (Detail.QUEUE, Detail.BAD_QUEUES):
        return 0
    return sum(
        min(
            each.sums.queues,
            (each.sums.parked_keys or 0)
            + sum(
                count
                for state, count in each.sums.states.items()
                if detail is Detail.QUEUE or VERDICTS[state] is not Verdict.OK
            ),
        )
        for each in groups
    )


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(json.dumps(value, allow_nan=False), _JSON, status)


def _error(status: HTTPStatus, text: str) -> Answer:
    return _json({"error": text}, status)


def _asset(question: Question) -> Answer:
    name, content_type = _PAGE[question.path]
    return Answer(_file(name), content_type)


@cache
def _file(name: str) -> bytes:
    return (files("orderly.monitoring.exporting") / "page" / name).read_bytes()
