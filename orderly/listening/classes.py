"""What the classes of an exception say: no other try helps, or it passes by itself."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.config.fields import require
from orderly.errors import OrderlyError, UndecodableBody
from orderly.ordering.verdict import Kind

Exceptions = tuple[type[Exception], ...]

_PASSES = (ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Classes:
    """Which exceptions say something. The nearest named class decides, as with `except`.

    Args:
        fatal: no other try helps; besides UndecodableBody.
        transient: it passes by itself; besides ConnectionError, TimeoutError and an OrderlyError
            that is `retriable`.

    Raises:
        ConfigError: no tuples of classes of Exception, or a class in both.
    """

    fatal: Exceptions = ()
    transient: Exceptions = ()

    def __post_init__(self) -> None:
        for name, classes in (("fatal", self.fatal), ("transient", self.transient)):
            require(
                isinstance(classes, tuple) and all(map(_is_exception, classes)),
                f"{name} must be a tuple of Exception classes such as (ValueError,), not"
                f" {classes!r}",
            )
        both = [c.__name__ for c in self.fatal if c in self.transient]
        require(not both, f"{', '.join(both)} cannot be both fatal and transient")

    def kind(self, error: BaseException) -> Kind:
        """Return what an exception's class says."""
        for base in type(error).__mro__:
            if base in self.fatal:
                return Kind.FATAL
            if base in self.transient:
                return Kind.TRANSIENT
        passes = isinstance(error, _PASSES) or (isinstance(error, OrderlyError) and error.retriable)
        if passes:
            return Kind.TRANSIENT
        return Kind.FATAL if isinstance(error, UndecodableBody) else Kind.ORDINARY


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
