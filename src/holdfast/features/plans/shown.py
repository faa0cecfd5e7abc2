"""The plan in HTTP bodies, and in the streams of AG-UI and MCP."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from holdfast.api.sessions import PlanShown
from holdfast.features.plans.events import PlanUpdated
from holdfast.features.plans.folds import steps_done
from holdfast.folds.transcript import Transcript


def session_fields(seen: Transcript) -> Mapping[str, object]:
    """Return the newest plan of the session."""
    plans = [(seq, event) for seq, event in seen.kept if isinstance(event, PlanUpdated)]
    if not plans:
        return {}
    seq, plan = plans[-1]
    return {"plan": PlanShown(seq=seq, run_id=plan.run_id, steps=plan.steps, accepted=plan.accepted)}


def _ag_ui(event: PlanUpdated) -> dict[str, Any]:
    plan = {"steps": msgspec.to_builtins(event.steps), "accepted": event.accepted}
    return {"type": "CUSTOM", "name": "holdfast.plan", "value": plan}


def _mcp(event: PlanUpdated) -> str:
    return f"Plan: {steps_done(event.steps)}"


AG_UI = MappingProxyType({PlanUpdated: _ag_ui})
MCP = MappingProxyType({PlanUpdated: _mcp})
