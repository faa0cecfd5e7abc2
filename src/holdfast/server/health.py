"""Health and discovery: is it alive, how is it, what can it do."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.api.operation import SCOPES, Scope
from holdfast.api.operations import OPERATIONS
from holdfast.api.server import (
    AuthShown,
    Capabilities,
    DetailedHealth,
    DiskShown,
    FailingTask,
    HealthShown,
    OpenFilesShown,
    PermissionModesShown,
    StoreHealth,
    TargetShown,
    TargetState,
)
from holdfast.catalog import FEATURES
from holdfast.interfaces.journal import JournalError, StoreClosed
from holdfast.server.access.caller import KEY_SCOPES
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response, raw_response

_OK = HealthShown(status="ok", version=__version__, platform="holdfast")
_ALIVE = msgspec.json.encode(_OK)
_NOTE = "health"

# Hermes clients switch on these, so each is true only if it works here.
_FEATURES: dict[str, Any] = {
    "chat_completions": True,
    "chat_completions_streaming": True,
    "responses_api": True,
    "responses_streaming": True,
    "models_api": True,
    "run_submission": True,
    "run_status": True,
    "run_events_sse": True,
    "run_events_replay": True,
    "run_stop": True,
    "run_steer": True,
    "run_retry": True,
    "run_approval_response": True,
    "approval_events": True,
    "approval_identity_v1": True,
    "question_events": True,
    "tool_progress_events": True,
    "session_resources": True,
    "session_chat": True,
    "session_chat_streaming": True,
    "session_fork": True,
    "session_search": True,
    "session_archived_listing": True,
    "session_continuity_header": "X-Hermes-Session-Id",
    "session_key_header": "X-Hermes-Session-Key",
    "idempotency": True,
    "runs_idempotency": {"supported": True, "enabled": True, "durable": True, "retention_seconds": 86_400},
    "skills_api": True,
    "toolsets_api": "hermes" in FEATURES,
    "model_options": "hermes" in FEATURES,
    "session_model_lock": "hermes" in FEATURES,
    "jobs_api": "automations" in FEATURES,
    "admin_config_rw": False,
    "memory_write_api": True,
    "audio_api": False,
    "realtime_voice": False,
}
_NAMED: dict[str, tuple[str, str]] = {
    "health": ("GET", "/health"),
    "health_detailed": ("GET", "/health/detailed"),
    "models": ("GET", "/v1/models"),
    "model_options": ("GET", "/api/model/options"),
    "skills": ("GET", "/v1/skills"),
    "toolsets": ("GET", "/v1/toolsets"),
    "chat_completions": ("POST", "/v1/chat/completions"),
    "responses": ("POST", "/v1/responses"),
    "runs": ("POST", "/v1/runs"),
    "run_list": ("GET", "/v1/runs"),
    "run_status": ("GET", "/v1/runs/{run_id}"),
    "run_events": ("GET", "/v1/runs/{run_id}/events"),
    "run_stop": ("POST", "/v1/runs/{run_id}/stop"),
    "run_steer": ("POST", "/v1/runs/{run_id}/steer"),
    "run_approval": ("POST", "/v1/runs/{run_id}/approval"),
    "sessions": ("GET", "/api/sessions"),
    "session_create": ("POST", "/api/sessions"),
    "session": ("GET", "/api/sessions/{session_id}"),
    "session_update": ("PATCH", "/api/sessions/{session_id}"),
    "session_delete": ("DELETE", "/api/sessions/{session_id}"),
    "session_messages": ("GET", "/api/sessions/{session_id}/messages"),
    "session_fork": ("POST", "/api/sessions/{session_id}/fork"),
    "session_chat": ("POST", "/api/sessions/{session_id}/chat"),
    "session_chat_stream": ("POST", "/api/sessions/{session_id}/chat/stream"),
    "session_model_lock": ("POST", "/api/sessions/{session_id}/model"),
    "session_goal": ("POST", "/v1/sessions/{session_id}/goal"),
    "jobs": ("GET", "/api/jobs"),
}
_SERVED = {(one.method, path) for one in OPERATIONS for path in one.paths}
_ENDPOINTS = {name: route for name, route in _NAMED.items() if route in _SERVED}


class HealthRoutes:
    """The routes about the server itself."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def alive(self, request: Request) -> Response:
        """GET /health and /v1/health."""
        del request
        if isinstance(self._deps.store.trouble, StoreClosed):
            # Only a restart helps, so a watchdog must be able to see it.
            raise Problem(503, "The store is closed: restart Holdfast", code="store_closed")
        if self._deps.options.tools_failed():
            text = "The tools can't be opened, so no run begins: see Holdfast's log, and restart it"
            raise Problem(503, text, code="tools_failed")
        warning = self._deps.options.open_files.warning
        return json_response(replace(_OK, warning=warning)) if warning else raw_response(_ALIVE)

    async def ready(self, request: Request) -> Response:
        """GET /health/ready."""
        del request
        deps = self._deps
        why = ""
        if deps.agent.drain.closed:
            why = "The server is shutting down"
        elif deps.store.trouble is not None:
            # Anyone may ask this; the detailed health has the details.
            why = "The store doesn't accept writes"
        elif not deps.supervisor.has_caught_up:
            why = "The server is starting"
        if why:
            raise Problem(503, why, code="not_ready", headers={"Retry-After": "1"})
        return raw_response(_ALIVE)

    async def detailed(self, request: Request) -> Response:
        """GET /health/detailed."""
        del request
        deps = self._deps
        store = await self._store()
        files = deps.options.open_files
        failing = {**deps.store.failing, **deps.agent.background.failing}
        is_well = not (store.error or store.lost or store.blobs or files.warning or failing)
        folder = deps.options.data_dir
        return json_response(
            DetailedHealth(
                status="ok" if is_well else "degraded",
                version=__version__,
                store=store,
                active_sessions=deps.supervisor.active,
                waiting_sessions=deps.supervisor.waiting,
                open_streams=len(deps.streams),
                event_loop_lag_ms=round(1000 * deps.supervisor.lag.last_s, 3),
                event_loop_lag_worst_ms=round(1000 * deps.supervisor.lag.worst_s, 3),
                draining=deps.agent.drain.closed,
                targets=tuple(map(_in_short, await deps.options.target_states())),
                open_files=OpenFilesShown(
                    used=files.used, allowed=files.allowed, connections=files.connections
                ),
                warning=files.warning,
                disk=await asyncio.to_thread(_disk, folder) if folder is not None else None,
                sandbox=deps.options.sandbox(),
                **await self._of_features(),
                failing_tasks=tuple(FailingTask(name, error) for name, error in failing.items()),
            )
        )

    async def _of_features(self) -> Mapping[str, Any]:
        """Return the fields of features."""
        fields: dict[str, Any] = {}
        for feature in FEATURES.values():
            if feature.health:
                fields |= await feature.part(feature.health)(self._deps)
        return fields

    async def _store(self) -> StoreHealth:
        """Whether the store accepts writes, and how long one takes to reach the disk."""
        clock, trouble = self._deps.clock, self._deps.store.trouble
        if trouble is not None:
            return StoreHealth(writable=False, late=True, error=str(trouble))
        began_s = clock.monotonic_s()
        try:
            await self._deps.store.put_note(_NOTE, str(clock.now_ms()).encode())
            write_ms = round(1000 * (clock.monotonic_s() - began_s), 3)
            lost = await self._deps.store.lost_writes() or UNSET
        except JournalError as error:
            late = self._deps.store.trouble is not None
            return StoreHealth(writable=False, late=late, error=str(error))
        blobs = UNSET if self._deps.store.blob_trouble is None else str(self._deps.store.blob_trouble)
        return StoreHealth(writable=True, late=False, write_ms=write_ms, lost=lost, blobs=blobs)

    async def capabilities(self, request: Request) -> Response:
        """GET /v1/capabilities."""
        deps = self._deps
        await deps.agent.until_opened()  # clients ask once, and need the sandbox as it is
        features = _FEATURES | dict.fromkeys(FEATURES, True) | {"cors": bool(deps.options.cors_origins)}
        held: frozenset[Scope] = request.scope.get(KEY_SCOPES, frozenset())
        return json_response(
            Capabilities(
                platform="hermes-agent",
                implementation="holdfast",
                version=__version__,
                model=deps.options.model,
                auth=AuthShown(
                    type="bearer",
                    required=not deps.keys.is_open,
                    scopes=tuple(one for one in SCOPES if one in held),
                ),
                runtime={"mode": "server_agent", "tool_execution": "server", "split_runtime": False},
                features=features,
                endpoints={
                    name: {"method": method, "path": path} for name, (method, path) in _ENDPOINTS.items()
                },
                sandbox=deps.options.sandbox(),
                permission_modes=PermissionModesShown(
                    mode=deps.modes.named(""), allowed=tuple(deps.mode_access.allowed())
                ),
            )
        )


def _in_short(target: TargetState) -> TargetShown:
    return TargetShown(**{name: getattr(target, name) for name in TargetShown.__struct_fields__})


def _disk(folder: Path) -> DiskShown:
    usage = shutil.disk_usage(folder)
    return DiskShown(free_bytes=usage.free, total_bytes=usage.total)


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    health = HealthRoutes(parts.deps)
    return {
        "health.capabilities": health.capabilities,
        "health.detailed": health.detailed,
        "health.alive": health.alive,
        "health.ready": health.ready,
    }
