"""A small HTTP endpoint where an orchestrator asks whether the consumer in this process is well.

GET /live and GET /ready answer 200 or 503, GET /health all that is known as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus

from orderly.config.arguments import check_arguments, check_function
from orderly.consumer.health import Health
from orderly.log import get_logger
from orderly.small_http import HttpRequest, HttpResponse, Server

_log = get_logger("orderly.probe")


class Probe(Server):
    """Serves the answers of `read` until closed. Thread-safe.

    Args:
        port: 0 for any free one.
        read: called for each request, on a thread of its own.
        host: the address to listen at. "0.0.0.0" lets a prober outside this host or container
            connect; then anybody who can connect sees /health (topics, offsets).

    Raises:
        ConfigError: no such port, or an argument of another kind.
    """

    def __init__(self, port: int, read: Callable[[], Health], host: str = "127.0.0.1") -> None:
        check_function("read", read)
        check_arguments("read", read)
        super().__init__(host, port, self._answer, "probe")
        self._read = read

    def _answer(self, question: HttpRequest) -> HttpResponse:
        answer = _ANSWERS.get(question.path)
        if answer is None:
            text = f"unknown path; the probe has {', '.join(_ANSWERS)}"
            return _json(json.dumps({"error": text}), HTTPStatus.NOT_FOUND)
        try:
            well, body = answer(self._read())
        except Exception as error:  # noqa: BLE001 - without an answer it is not well
            _log.error("probe.health_not_read", error=repr(error), exc_info=True)
            well, body = False, json.dumps({"error": "the health could not be read; see the log"})
        return _json(body, HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE)


def _json(body: str, status: HTTPStatus) -> HttpResponse:
    return HttpResponse(body, "application/json", status)


def _live(health: Health) -> tuple[bool, str]:
    return health.live, json.dumps({"live": health.live, "reasons": health.reasons})


def _ready(health: Health) -> tuple[bool, str]:
    return health.ready, json.dumps({"ready": health.ready, "reasons": health.reasons})


def _all(health: Health) -> tuple[bool, str]:
    return True, health.to_json()


_ANSWERS: dict[str, Callable[[Health], tuple[bool, str]]] = {
    "/live": _live,
    "/ready": _ready,
    "/health": _all,
}
