"""Effects that happen once: one row per key, in the transaction of the effect.

`rule` decides whether to apply an effect, and which row a key has. `sql` keeps the row with
SQLAlchemy, `redis` in Redis. Both stores are imported on first use: each needs an extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orderly.extras import install
from orderly.once.rule import Verdict

if TYPE_CHECKING:
    from orderly.once.redis import RedisOnce
    from orderly.once.sql import Once

__all__ = ["Once", "RedisOnce", "Verdict"]

_HOMES = {"Once": ("orderly.once.sql", "once"), "RedisOnce": ("orderly.once.redis", "redis")}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'orderly.once' has no attribute {name!r}")
    home, extra = _HOMES[name]
    try:
        return getattr(import_module(home), name)
    except ImportError as error:
        raise ImportError(f"{name} needs an extra: `{install(extra)}`") from error
