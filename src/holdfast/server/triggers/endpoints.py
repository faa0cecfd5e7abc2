"""Binds the endpoints of triggers, hermes jobs and webhooks."""

from collections.abc import Mapping

from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.triggers.hooks import HookRoutes
from holdfast.server.triggers.jobs import JobRoutes
from holdfast.server.triggers.routes import TriggerRoutes


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """What these endpoints do."""
    deps = parts.deps
    triggers, jobs = TriggerRoutes(deps), JobRoutes(deps)
    return {
        "jobs.list": jobs.list,
        "jobs.create": jobs.create,
        "jobs.show": jobs.show,
        "jobs.edit": jobs.edit,
        "jobs.delete": jobs.delete,
        "jobs.pause": jobs.pause,
        "jobs.resume": jobs.resume,
        "jobs.run": jobs.run,
        "triggers.list": triggers.list,
        "triggers.create": triggers.create,
        "triggers.preview": triggers.preview,
        "triggers.show": triggers.show,
        "triggers.edit": triggers.edit,
        "triggers.delete": triggers.delete,
        "triggers.pause": triggers.pause,
        "triggers.resume": triggers.resume,
        "triggers.run": triggers.run,
        "triggers.missed": triggers.missed,
        "triggers.secret": triggers.secret,
        "triggers.history": triggers.history,
        "hooks.deliver": HookRoutes(deps).deliver,
    }
