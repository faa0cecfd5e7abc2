"""Telemetry: traces and metrics over OTLP, for OpenTelemetry collectors."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="telemetry", work="exporter:export_telemetry", needs="telemetry.endpoint")
