"""The server: what each operation of the API does, and the application around it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TypeAlias

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.agent.deps import AgentDeps
from holdfast.api.operations import OPERATIONS
from holdfast.catalog import FEATURES
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.feature import Feature
from holdfast.interfaces.journal import Fence
from holdfast.journal.retrying_append import AWAY, once_readable
from holdfast.journal.shared_notes import SharedNotes
from holdfast.runner.claims import ClaimedLogs
from holdfast.runner.inbox import Inbox
from holdfast.runner.session_modes import SessionModes
from holdfast.runner.supervisor import RunnerLimits, Supervisor, open_runs
from holdfast.server.access.auth import KeyRing, SharedLinks, SignIns
from holdfast.server.access.budgets import KeyBudgets, UploadQuota
from holdfast.server.access.caller import KEY_NAME, SIGN_IN, caller_name
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.middleware import HEALTH_PATHS, MOUNTING, UNREAD, Access, AccessMiddleware
from holdfast.server.access.modes import ModeAccess
from holdfast.server.access.tickets import Tickets
from holdfast.server.access.workspaces import WorkspaceAccess
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import LazyEndpoints, RouteParts
from holdfast.server.options import ServerOptions
from holdfast.server.page import PageRoute, PageRoutes
from holdfast.server.peers import peers_of
from holdfast.server.problems import Problem
from holdfast.server.routing import ApiRouter, api_routes
from holdfast.server.sessions.listing import ReadMarks
from holdfast.server.store_hooks import hook_into
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.stream import Streams
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.server.upkeep.list_changes import publish_list_changes
from holdfast.server.upkeep.purging import ForeignPurges, Purges, Thinning

_log = logging.getLogger(__name__)

# Something that works as long as the server does, until it is cancelled.
ServerWork: TypeAlias = Callable[[RouteDeps], Awaitable[None]]


async def reread_access(deps: RouteDeps) -> None:
    """Take over what other nodes have changed about keys and sign-ins, and end streams that they closed."""
    await deps.keys.added.load()
    await deps.sign_ins.load()

    def is_over(scope: Scope) -> bool:
        if not deps.keys.is_open and not deps.keys.mark_of(scope.get(KEY_NAME, "")):
            return True
        cookie: str | None = scope.get(SIGN_IN)
        return cookie is not None and deps.sign_ins.owner_of(cookie) is None

    deps.streams.end_where(is_over)


def make_app(
    agent: AgentDeps,
    streams: Streams,
    *,
    options: ServerOptions | None = None,
    runner: RunnerLimits | None = None,
    also: Mapping[str, ServerWork] = MappingProxyType({}),
) -> AccessMiddleware:
    """The application; its lifespan owns the supervisor and `also`, and the caller owns the store."""
    deps = _deps(agent, streams, options=options or ServerOptions(), runner=runner)

    if MOUNTING in also:
        deps.mounts[UNREAD] = None
    purges, disconnects = Purges(deps), Disconnects(deps)
    parts = RouteParts(deps, purges, disconnects)

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncGenerator[None]:
        load = (deps.keys.added.load, deps.sign_ins.load, deps.marks.load, deps.peers.open)
        for part in (*load, partial(_count_open_runs, deps)):
            await once_readable(part, deps.clock, waits_out=AWAY)
        _warn_of_limits_without_a_key(deps)
        if deps.peers.exist:
            deps.tickets.key = deps.peers.key_for("tickets")
            deps.sign_ins.shared_links = SharedLinks(deps.store, deps.clock, deps.peers.key_for("links"))
        async with deps.supervisor:
            access = SharedNotes(deps.store, "access")
            works: dict[str, Callable[[], Awaitable[None]]] = {
                **_owners(deps, runner),
                "purges": purges.run,
                "purges by other servers": ForeignPurges(deps, purges).run,
                "log thinning": Thinning(deps).run,
                "session list changes": partial(publish_list_changes, deps),
                "open files": deps.options.open_files.watch,
                "shared keys": partial(access.watch, deps.clock, partial(reread_access, deps)),
                **{name: partial(_once_opened, deps, partial(work, deps)) for name, work in also.items()},
            }
            background = agent.background
            tasks = [background.start(name, work) for name, work in works.items()]
            try:
                yield
            finally:
                await background.end(*tasks)
                await disconnects.close()
                await parts.closing.aclose()
                await deps.peers.close()

    endpoints = LazyEndpoints(parts)
    endpoints.bind("health.alive")
    routes = api_routes(OPERATIONS, endpoints.all())
    page = PageRoute(PageRoutes(deps.options.page, deps.options.mount_path))
    router = ApiRouter(routes, page, lifespan=lifespan)
    drain = deps.supervisor.drain
    access = Access(
        deps.keys, deps.sign_ins, deps.tickets, agent.secrets, deps.peers if deps.peers.exist else None
    )
    app = _waiting(router, deps) if deps.options.requires_sandbox else router
    return AccessMiddleware(app, deps.options, access, drain=drain, mounts=deps.mounts)


def _waiting(app: ASGIApp, deps: RouteDeps) -> ASGIApp:
    """The application; everything but its health waits until the required sandbox holds."""

    async def opened(scope: Scope, receive: Receive, send: Send) -> None:
        is_waiting = scope["type"] == "http" and scope["path"] not in HEALTH_PATHS
        if is_waiting and not await deps.agent.until_opened():
            raise Problem(503, "The server is shutting down", code="not_ready")
        await app(scope, receive, send)

    return opened


def _owners(deps: RouteDeps, runner: RunnerLimits | None) -> dict[str, Callable[[], Awaitable[None]]]:
    """The owners of the features' logs; none in a server that only does what it is asked."""
    if runner is not None and runner.resume_runs == "asked":
        return {}
    return {
        f"owners of {source} logs": partial(_once_opened, deps, _owning(deps, feature, source).run)
        for feature in FEATURES.values()
        for source in feature.owners
    }


def _owning(deps: RouteDeps, feature: Feature, source: str) -> ClaimedLogs:
    part = feature.owners[source]

    async def own(log_id: str, fence: Fence) -> None:
        await asyncio.to_thread(import_module, feature.module(part))
        await feature.part(part)(log_id, fence, deps)

    return ClaimedLogs(deps.store, deps.clock, source=source, own=own)


async def _once_opened(deps: RouteDeps, work: Callable[[], Awaitable[None]]) -> None:
    """Start autonomous work, after a required sandbox has passed its self-test."""
    if await deps.agent.until_opened():
        await work()


def _deps(
    agent: AgentDeps, streams: Streams, *, options: ServerOptions, runner: RunnerLimits | None
) -> RouteDeps:
    metrics = Metrics()
    store = agent.store
    hook_into(store, agent.secrets, metrics)
    supervisor = Supervisor(agent, runner)
    access = SharedNotes(agent.store, "access")
    keys = KeyRing(options.keys, AddedKeys(access, agent.clock))
    inbox = Inbox(agent.store, supervisor, agent.clock, caller=caller_name)
    folders = (agent.workspace, *options.workspaces)
    return RouteDeps(
        agent=agent,
        supervisor=supervisor,
        inbox=inbox,
        folds=Folds(agent.store, supervisor),
        streams=streams,
        keys=keys,
        sign_ins=SignIns(access, agent.clock, keys),
        tickets=Tickets(agent.clock),
        options=options,
        marks=ReadMarks(agent.store),
        metrics=metrics,
        budgets=KeyBudgets(options.key_settings, agent.store, agent.clock),
        peers=peers_of(agent, supervisor, keys, jobs=options.jobs),
        uploads=UploadQuota(agent.clock, options.limits.upload_bytes_per_day),
        workspaces=WorkspaceAccess(keys, folders, store=store, states=inbox.state),
        modes=SessionModes(inbox, agent.judge, agent.clock),
        mode_access=ModeAccess(keys, options.mode_max),
    )


async def _count_open_runs(deps: RouteDeps) -> None:
    """Count the runs that an earlier process left open."""
    deps.metrics.begin_with([run async for run in open_runs(deps.store)])


def _warn_of_limits_without_a_key(deps: RouteDeps) -> None:
    """Say which [[keys]] have no effect: a misspelled name would leave its key without limits."""
    names = [*deps.keys.configured, *(key.name for key in deps.keys.added.list())]
    for name in deps.budgets.unknown(names):
        _log.warning(
            "[[keys]]: no API key is named %r, so its limits have no effect; `holdfast keys list` shows "
            "the names, and `holdfast keys add` creates a key",
            name,
        )
