"""OpenTelemetry for producers and consumers: spans, their context in the messages, two metrics.

Nothing else in `orderly` imports this package. It needs an extra: `rocketmq-orderly[otel]`.
"""

from orderly.extras import install

try:
    import opentelemetry.trace  # noqa: F401  to say in time what is missing
except ImportError as error:
    raise ImportError(f"orderly.telemetry needs an extra: `{install('otel')}`") from error

from orderly.telemetry.consuming import traced_hooks
from orderly.telemetry.producing import TracedProducer

__all__ = ["TracedProducer", "traced_hooks"]
