"""Sends the spans and metrics of a server to an OpenTelemetry collector, and passes trace contexts on."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import aiohttp
from msgspec import Struct

from holdfast.config.settings import Settings, TelemetrySettings
from holdfast.events import Event, Input, RunQueued
from holdfast.features.telemetry.otlp import METRICS, TRACES, metrics_body, resource, traces_body
from holdfast.features.telemetry.spans import Spans, TraceSpan
from holdfast.host.runtime import Runtime
from holdfast.interfaces.ids import current_ids
from holdfast.interfaces.journal import JournalError, StoreHooks
from holdfast.server.deps import RouteDeps
from holdfast.server.metrics import families, measured

_log = logging.getLogger(__name__)
SPANS_MAX = 10_000  # that wait for a collector; after that, the oldest are dropped
AT_ONCE = 500
SPANS_S = 5.0  # how long spans are gathered, as in OpenTelemetry's own packages
PATIENCE_S = 10.0  # for the collector's response
LAST_S = 2.0  # for the last export, at shutdown
CONTEXT = "traceparent"


async def export_telemetry(deps: RouteDeps, settings: Settings, runtime: Runtime) -> None:
    """Trace and measure until cancelled, and then export what is left."""
    exporter = Exporter(deps, settings.telemetry, instance=settings.node_name)
    hooks = deps.store.hooks
    deps.store.hooks = exporter.hooked(hooks)
    runtime.calls.http().trace(_context_sender(exporter.spans))
    try:
        async with aiohttp.ClientSession(headers=_headers(settings.telemetry)) as http:
            await exporter.run(http)
    finally:
        deps.store.hooks = hooks


def _headers(settings: TelemetrySettings) -> dict[str, str]:
    return {name: str(value) for name, value in settings.headers.items()}


def _context_sender(spans: Spans) -> aiohttp.TraceConfig:
    """Add the run's trace context to each request to a model."""
    config = aiohttp.TraceConfig()

    async def add_context(
        session: aiohttp.ClientSession, context: SimpleNamespace, request: aiohttp.TraceRequestStartParams
    ) -> None:
        del session, context
        if found := spans.requested(**current_ids()):
            request.headers[CONTEXT] = found

    config.on_request_start.append(add_context)
    config.freeze()
    return config


class _Failure(Struct):
    """The collector's last error; each change is logged once."""

    text: str = ""

    def note(self, text: str) -> None:
        if text and text != self.text:
            _log.warning("telemetry isn't exported: %s; Holdfast will try again", text)
        elif self.text and not text:
            _log.info("telemetry is exported again")
        self.text = text


class Exporter:
    """Folds committed events into spans, and exports them."""

    def __init__(
        self,
        deps: RouteDeps,
        settings: TelemetrySettings,
        *,
        instance: str,
        sleep_s: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self.spans = Spans(content=settings.content)
        self._deps = deps
        self._settings = settings
        self._sleep_s = sleep_s or asyncio.sleep
        self._about = resource(settings.service_name, instance)
        self._began_ns = time.time_ns()
        self._waiting: deque[TraceSpan] = deque(maxlen=SPANS_MAX)
        self._failure = _Failure()

    def hooked(self, hooks: StoreHooks) -> StoreHooks:
        """Return the hooks of a store that also fold what is committed."""
        before, after = hooks.before_append, hooks.after_commit

        def before_append(inputs: Sequence[Input]) -> Sequence[Input]:
            if (context := current_ids().get(CONTEXT)) is not None:
                for event in inputs:
                    if isinstance(event, RunQueued):
                        self.spans.called_by(event.run_id, context)
            return inputs if before is None else before(inputs)

        def after_commit(events: Sequence[Event], seconds: float) -> None:
            if after is not None:
                after(events, seconds)
            try:
                self.spans.add(events, seconds, time.time_ns())
            except Exception as error:  # noqa: BLE001  # the events are on disk, and their run continues
                _log.error("some events aren't traced, because of a bug in Holdfast", exc_info=error)

        return StoreHooks(before_append, after_commit)

    async def run(self, http: aiohttp.ClientSession) -> None:
        """Export at intervals."""
        metrics_at_s = 0.0
        try:
            while True:
                await self._sleep_s(SPANS_S)
                await self._export_spans(http)
                metrics_at_s -= SPANS_S
                if metrics_at_s <= 0:
                    metrics_at_s = self._settings.metrics_s
                    await self._export_metrics(http)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._export_spans(http)
                    await self._export_metrics(http)
            raise

    async def _export_spans(self, http: aiohttp.ClientSession) -> None:
        self._waiting.extend(self.spans.take())
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
            body = await asyncio.to_thread(traces_body, self._about, batch)
            if not await self._posted(http, TRACES, body):
                self._waiting.extendleft(reversed(batch[: SPANS_MAX - len(self._waiting)]))
                return

    async def _export_metrics(self, http: aiohttp.ClientSession) -> None:
        try:
            gauges = await measured(self._deps)
        except JournalError:
            return  # the store can't be read now, which the log reports
        await self._posted(http, METRICS, await asyncio.to_thread(self._metrics, gauges))

    def _metrics(self, gauges: Mapping[str, tuple[str, float]]) -> bytes:
        return metrics_body(self._about, families(self._deps.metrics, gauges), began_ns=self._began_ns)

    async def _posted(self, http: aiohttp.ClientSession, path: str, body: bytes) -> bool:
        """Whether the collector took it, or never will."""
        url = self._settings.endpoint.rstrip("/") + path
        headers = {"Content-Type": "application/json"}
        patience: Any = aiohttp.ClientTimeout(total=PATIENCE_S)
        try:
            async with http.post(url, data=body, headers=headers, timeout=patience) as answer:
                status = answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._failure.note(f"{url}: {type(error).__name__}")
            return False
        self._failure.note("" if status < HTTPStatus.BAD_REQUEST else f"{url} returned status {status}")
        is_busy = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return not is_busy
