"""Whether somebody traces this process with OpenTelemetry, which posse itself does not need."""

from __future__ import annotations


def is_traced() -> bool:
    """Return whether a provider of traces was set up, as ``opentelemetry-instrument posse serve`` does."""
    try:
        from opentelemetry import trace
    except ImportError:
        return False
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))
