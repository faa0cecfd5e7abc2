"""The plan in an editor (ACP)."""

from types import MappingProxyType

from acp.schema import AgentPlanUpdate, PlanEntry

from holdfast.features.plans.events import PlanUpdated


def _plan(event: PlanUpdated) -> AgentPlanUpdate:
    """The agent's plan, which replaces the one before."""
    entries = [PlanEntry(content=step.text, priority="medium", status=step.state) for step in event.steps]
    return AgentPlanUpdate(session_update="plan", entries=entries)


UPDATES = MappingProxyType({PlanUpdated: _plan})
