"""Encodes spans and metrics as OTLP/HTTP bodies in JSON."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import __version__
from holdfast.features.telemetry import conventions as names
from holdfast.features.telemetry.spans import TraceSpan, Value

if TYPE_CHECKING:
    from prometheus_client.core import Metric

TRACES, METRICS = "/v1/traces", "/v1/metrics"
_KINDS = {"internal": 1, "client": 3}
_ERROR = 2
_CUMULATIVE = 2
_SCOPE = {"name": "holdfast", "version": __version__}


def resource(service: str, instance: str) -> dict[str, Any]:
    """Return the description of this server."""
    named = {names.SERVICE_NAME: service, names.SERVICE_VERSION: __version__}
    return {"attributes": _attributes({**named, names.SERVICE_INSTANCE_ID: instance})}


def traces_body(about: Mapping[str, Any], spans: Iterable[TraceSpan]) -> bytes:
    """Return the body of an export of spans."""
    scoped = {"scope": _SCOPE, "spans": [_span(one) for one in spans]}
    return msgspec.json.encode({"resourceSpans": [{"resource": about, "scopeSpans": [scoped]}]})


def metrics_body(about: Mapping[str, Any], families: "Iterable[Metric]", *, began_ns: int) -> bytes:
    """Return the body of an export of metrics: the same that Prometheus reads, under the same names."""
    times = {"startTimeUnixNano": str(began_ns), "timeUnixNano": str(time.time_ns())}
    metrics = [_metric(one, times) for one in families]
    scoped = {"scope": _SCOPE, "metrics": metrics}
    return msgspec.json.encode({"resourceMetrics": [{"resource": about, "scopeMetrics": [scoped]}]})


def _span(span: TraceSpan) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.begin_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if span.error:
        made["status"] = {"code": _ERROR, "message": span.error}
    return made


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}


def _metric(family: "Metric", times: Mapping[str, str]) -> dict[str, Any]:
    points = family.samples
    about = {"name": _name(family), "description": family.documentation}
    if family.type == "histogram":
        spreads = {"aggregationTemporality": _CUMULATIVE, "dataPoints": _spreads(points, times)}
        return about | {"histogram": spreads}
    numbers = [
        {**times, "attributes": _attributes(one.labels), "asDouble": float(one.value)} for one in points
    ]
    if family.type == "counter":
        total = {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True, "dataPoints": numbers}
        return about | {"sum": total}
    return about | {"gauge": {"dataPoints": numbers}}


def _name(family: "Metric") -> str:
    """The name of the Prometheus series, so that dashboards work with either."""
    return {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(family.type, family.name)


def _spreads(samples: Sequence[Any], times: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return histograms by their labels, from the cumulative buckets of Prometheus."""
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for one in samples:
        labels = {name: value for name, value in one.labels.items() if name != "le"}
        empty = {**times, "attributes": _attributes(labels), "bucketCounts": [], "explicitBounds": []}
        point = found.setdefault(tuple(sorted(labels.items())), empty)
        if one.name.endswith("_sum"):
            point["sum"] = float(one.value)
        elif one.name.endswith("_count"):
            point["count"] = str(int(one.value))
        elif one.name.endswith("_bucket"):
            before = sum(map(int, point["bucketCounts"]))
            point["bucketCounts"].append(str(int(one.value) - before))
            if one.labels["le"] != "+Inf":
                point["explicitBounds"].append(float(one.labels["le"]))
    return list(found.values())
