"""OpenTelemetry for producers and consumers: spans, their context in the messages, two metrics.

Nothing else in `orderly` imports this package. It needs an extra: `rocketmq-orderly[otel]`.
"""

try:
    import opentelemetry.trace  # noqa: F401  to say in time what is missing
except ImportError as error:
    raise ImportError(
        "orderly.telemetry needs an extra: `pip install 'rocketmq-orderly[otel]'`"
    ) from error

from orderly.telemetry.consuming import traced_hooks
from orderly.telemetry.producing import TracedProducer

__all__ = ["TracedProducer", "traced_hooks"]
