"""Every request is a span where somebody traces, also decisions and rewards."""

import pytest


def test_decisions_and_rewards_are_spans(start, monkeypatch):
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason='needs OpenTelemetry: pip install ".[otel]"')
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    service = start()
    service.make_fleet()
    decision = service.decide(headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    service.reward(decision, 1.0)
    found = {span.name: span for span in spans.get_finished_spans()}
    assert "POST /v1/decisions/{id}/reward" in found
    assert found["POST /v1/fleets/{fleet}/decisions"].context.trace_id == int("ab" * 16, 16)
