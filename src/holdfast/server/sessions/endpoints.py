"""Binds the endpoints of sessions."""

from collections.abc import Mapping

from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.sessions.children import ChildRoutes, ProcessRoutes
from holdfast.server.sessions.log import SessionLogRoutes
from holdfast.server.sessions.queue import QueueRoutes
from holdfast.server.sessions.sessions import SessionRoutes


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    sessions, log, queue = SessionRoutes(deps, parts.purges), SessionLogRoutes(deps), QueueRoutes(deps)
    children, processes = ChildRoutes(deps), ProcessRoutes(deps)
    return {
        "sessions.list": sessions.list,
        "sessions.create": sessions.create,
        "sessions.show": sessions.show,
        "sessions.live": sessions.live,
        "processes.show": processes.show,
        "processes.stop": processes.stop,
        "sessions.change": sessions.change,
        "sessions.move": sessions.move,
        "sessions.put_mode": sessions.put_mode,
        "sessions.delete": sessions.delete,
        "sessions.undelete": sessions.undelete,
        "sessions.children": children.tree,
        "sessions.draft": sessions.draft,
        "sessions.put_draft": sessions.put_draft,
        "log.messages": log.messages,
        "log.events": log.events,
        "log.fork": log.fork,
        "log.rewind": log.rewind,
        "log.export": log.export,
        "queue.show": queue.show,
        "queue.pause": queue.pause,
        "queue.resume": queue.resume,
        "queue.clear": queue.clear,
        "queue.change": queue.change,
        "queue.remove": queue.remove,
        "log.list_changes": log.list_changes,
    }
