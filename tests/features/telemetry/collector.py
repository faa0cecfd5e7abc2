"""An OpenTelemetry collector, which reads what it gets with OpenTelemetry's own types."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The spans and metrics that have arrived; `refusals` are statuses for the next requests."""

    def __init__(self) -> None:
        self.refusals: list[int] = []
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.resource: dict[str, str] = {}
        self._arrived = asyncio.Condition()
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.headers = dict(request.headers)
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        async with self._arrived:
            if request.path == "/v1/traces":
                self._take_spans(body)
            else:
                self._take_metrics(body)
            self._arrived.notify_all()
        return web.json_response({})

    def _take_spans(self, body: bytes) -> None:
        # OTLP writes ids in hexadecimal, and the JSON of protocol buffers in base64.
        document = json.loads(body)
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for name in span.keys() & {"traceId", "spanId", "parentSpanId"}:
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        (found,) = Parse(json.dumps(document), ExportTraceServiceRequest()).resource_spans
        self.resource = attributes(found.resource)
        self.spans += found.scope_spans[0].spans

    def _take_metrics(self, body: bytes) -> None:
        (found,) = Parse(body, ExportMetricsServiceRequest()).resource_metrics
        self.metrics = {one.name: one for one in found.scope_metrics[0].metrics}

    async def until_span(self, name: str, *, count: int = 1) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: sum(one.name == name for one in self.spans) >= count)

    async def until_metrics(self) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: bool(self.metrics))

    def named(self, prefix: str) -> list[Any]:
        return [one for one in self.spans if one.name.startswith(prefix)]


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a span or a resource as plain values."""
    found: dict[str, Any] = {}
    for one in of.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


@asynccontextmanager
async def collector() -> AsyncGenerator[Collector]:
    """A collector on a free port."""
    collecting = Collector()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", collecting.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collecting.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collecting
    finally:
        await runner.cleanup()
