"""The fields of the detailed health by which hermes' monitors judge a server."""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any

from holdfast.api.server import ReadinessCheck, ReadinessShown
from holdfast.server.deps import RouteDeps

DISK_USED_MAX = 95.0  # per cent


async def health(deps: RouteDeps) -> Mapping[str, Any]:
    """Return hermes' fields."""
    is_draining = deps.agent.drain.closed
    state = "draining" if is_draining else "running" if deps.supervisor.has_caught_up else "starting"
    checks = {
        "state_db": ReadinessCheck("ok" if deps.store.trouble is None else "degraded"),
        "config": ReadinessCheck("ok"),
        "model": ReadinessCheck("ok" if deps.options.targets else "degraded"),
        "gateway": ReadinessCheck("ok" if state == "running" else "degraded", state=state),
        "background_queues": ReadinessCheck("ok", active_api_runs=deps.supervisor.active),
    }
    if (folder := deps.options.data_dir) is not None:
        usage = await asyncio.to_thread(shutil.disk_usage, folder)
        used = round(100 * usage.used / usage.total, 1)
        status = "ok" if used < DISK_USED_MAX else "degraded"
        checks["disk"] = ReadinessCheck(status, used_percent=used, free_bytes=usage.free)
    is_ready = all(check.status == "ok" for check in checks.values())
    return {
        "readiness": ReadinessShown("ok" if is_ready else "degraded", checks),
        "gateway_state": state,
        "active_agents": deps.supervisor.active,
    }
