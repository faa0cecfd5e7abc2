"""The server: what each operation of the API does, and the application around it."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.agent.deps import AgentDeps
from holdfast.api.operations import OPERATIONS
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.journal import Fence
from holdfast.journal.redacting import RedactingStore
from holdfast.journal.retrying_append import AWAY, once_readable
from holdfast.journal.shared_notes import SharedNotes
from holdfast.runner.claimed_logs import ClaimedLogs
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import RunnerLimits, Supervisor
from holdfast.runner.triggers import TriggerOwner
from holdfast.server.access.attributed_store import AttributedStore
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.budgets import KeyBudgets
from holdfast.server.access.caller import KEY_NAME, SIGN_IN, caller_name
from holdfast.server.access.key_routes import KeyRoutes
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.middleware import HEALTH_PATHS, Access, AccessMiddleware
from holdfast.server.access.request_secrets import redactor_source
from holdfast.server.access.shared_links import SharedLinks
from holdfast.server.access.signing_in import SignInRoutes
from holdfast.server.access.tickets import Tickets
from holdfast.server.access.uploads import UploadQuota
from holdfast.server.access.workspaces import WorkspaceAccess
from holdfast.server.ag_ui.routes import AgUiRoutes
from holdfast.server.blobs import BlobRoutes
from holdfast.server.channels.deliveries import ChannelDeliveryRoutes
from holdfast.server.channels.routes import ChannelRoutes
from holdfast.server.deps import RouteDeps
from holdfast.server.docs_page import DocsRoutes
from holdfast.server.files.routes import FileRoutes
from holdfast.server.grants import GrantRoutes
from holdfast.server.health import HealthRoutes
from holdfast.server.mcp.agent_service import AgentService
from holdfast.server.mcp.run_calls import RunCalls
from holdfast.server.mcp.transport import McpRoutes
from holdfast.server.memory import MemoryRoutes
from holdfast.server.metered_store import MeteredStore
from holdfast.server.metrics import MetricsRoutes, begin_figures
from holdfast.server.nodes import NodeRoutes
from holdfast.server.openai.chat import OpenAIChatRoutes
from holdfast.server.openai.conversations import ConversationRoutes
from holdfast.server.openai.models import OpenAIModelRoutes
from holdfast.server.openai.repeats import Repeats
from holdfast.server.openai.responses import OpenAIResponsesRoutes
from holdfast.server.openai.stored_context import OpenAIContextRoutes
from holdfast.server.options import ServerOptions
from holdfast.server.page import PageRoute, PageRoutes
from holdfast.server.peers.admission import PeerAdmission
from holdfast.server.peers.file_requests import FileRequests
from holdfast.server.peers.lives import SessionLives
from holdfast.server.peers.peers import Peers
from holdfast.server.quarantine import QuarantineRoutes
from holdfast.server.relay.calls import DetachedCalls
from holdfast.server.relay.records import CallRecords
from holdfast.server.relay.routes import AgentEndpoints, KeptCalls, RelayRoutes
from holdfast.server.routing import ApiRouter, Endpoint, api_routes
from holdfast.server.runs.changes import ChangeRoutes
from holdfast.server.runs.chat import ChatRoutes
from holdfast.server.runs.inputs import RunInputRoutes
from holdfast.server.runs.runs import RunRoutes
from holdfast.server.sessions.brought_servers import BroughtServerRoutes
from holdfast.server.sessions.children import ChildRoutes
from holdfast.server.sessions.log import SessionLogRoutes
from holdfast.server.sessions.processes import ProcessRoutes
from holdfast.server.sessions.queue import QueueRoutes
from holdfast.server.sessions.read_marks import ReadMarks
from holdfast.server.sessions.sessions import SessionRoutes
from holdfast.server.skills import SkillRoutes
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.stream import Streams
from holdfast.server.targets import TargetRoutes
from holdfast.server.triggers.hooks import HookRoutes
from holdfast.server.triggers.jobs import JobRoutes
from holdfast.server.triggers.routes import TriggerRoutes
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.server.upkeep.foreign_purges import ForeignPurges
from holdfast.server.upkeep.list_changes import publish_list_changes
from holdfast.server.upkeep.purging import Purges
from holdfast.server.upkeep.thinning import Thinning
from holdfast.server.usage import UsageRoutes
from holdfast.values import TRIGGER

_log = logging.getLogger(__name__)

# Something that works as long as the server does, until it is cancelled.
ServerWork: TypeAlias = Callable[[RouteDeps], Awaitable[None]]


def endpoints(
    deps: RouteDeps, purges: Purges, disconnects: Disconnects, kept: KeptCalls
) -> Mapping[str, Endpoint]:
    """What each endpoint of the table does."""
    runs = RunRoutes(deps, disconnects)
    return {
        **_run_endpoints(deps, runs, disconnects),
        **_session_endpoints(deps, runs, purges),
        **_openai_endpoints(deps, runs, disconnects, kept),
        **_server_endpoints(deps),
        **_trigger_endpoints(deps),
    }


def _run_endpoints(deps: RouteDeps, runs: RunRoutes, disconnects: Disconnects) -> Mapping[str, Endpoint]:
    inputs, grants, changes = RunInputRoutes(deps), GrantRoutes(deps), ChangeRoutes(deps)
    ag_ui = AgUiRoutes(deps, runs, disconnects)
    mcp = McpRoutes(AgentService(deps, RunCalls(deps, runs, disconnects)), deps.streams, deps.limits)
    return {
        "runs.start": runs.start,
        "runs.show": runs.show,
        "runs.events": runs.events,
        "runs.list": runs.list,
        "inputs.stop": inputs.stop,
        "inputs.approve": inputs.approve,
        "inputs.rule": inputs.rule,
        "inputs.question": inputs.question,
        "inputs.say": inputs.say,
        "inputs.retry": inputs.retry,
        "inputs.compact": inputs.compact,
        "inputs.gate": inputs.gate,
        "inputs.approvals": inputs.approvals,
        "changes.show": changes.changes,
        "changes.preview": changes.preview,
        "changes.undo": changes.undo,
        "changes.redo": changes.redo,
        "grants.list": grants.list,
        "grants.revoke": grants.revoke,
        "ag_ui.run": ag_ui.run,
        "mcp.post": mcp.post,
        "mcp.get": mcp.get,
    }


def _session_endpoints(deps: RouteDeps, runs: RunRoutes, purges: Purges) -> Mapping[str, Endpoint]:
    sessions, log, queue = SessionRoutes(deps, purges), SessionLogRoutes(deps), QueueRoutes(deps)
    chat, conversations = ChatRoutes(deps, runs), ConversationRoutes(deps, sessions)
    files, children, processes = FileRoutes(deps), ChildRoutes(deps), ProcessRoutes(deps)
    return {
        "conversations.create": conversations.create,
        "conversations.show": conversations.show,
        "conversations.change": conversations.change,
        "conversations.delete": conversations.delete,
        "conversations.items": conversations.items,
        "conversations.item": conversations.item,
        "sessions.list": sessions.list,
        "sessions.create": sessions.create,
        "sessions.show": sessions.show,
        "sessions.live": sessions.live,
        "processes.show": processes.show,
        "processes.stop": processes.stop,
        "sessions.change": sessions.change,
        "sessions.move": sessions.move,
        "sessions.put_mode": sessions.put_mode,
        "sessions.put_servers": BroughtServerRoutes(deps).put,
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
        "files.list": files.list,
        "files.read": files.read,
        "files.write": files.write,
        "chat.chat": chat.chat,
        "chat.stream": chat.stream,
        "queue.show": queue.show,
        "queue.pause": queue.pause,
        "queue.resume": queue.resume,
        "queue.clear": queue.clear,
        "queue.change": queue.change,
        "queue.remove": queue.remove,
        "log.list_changes": log.list_changes,
    }


def _openai_endpoints(
    deps: RouteDeps, runs: RunRoutes, disconnects: Disconnects, kept: KeptCalls
) -> Mapping[str, Endpoint]:
    repeats = Repeats(deps.clock)
    openai = OpenAIChatRoutes(deps, runs, disconnects, repeats)
    responses = OpenAIResponsesRoutes(deps, runs, disconnects, repeats)
    models = OpenAIModelRoutes(deps)
    context = OpenAIContextRoutes(deps, runs, disconnects)
    agents = AgentEndpoints(openai.complete, responses.create, context.input_tokens, context.compact)
    relay = RelayRoutes(deps, kept, agents)
    return {
        "openai.complete": relay.chat,
        "relay.messages": relay.messages,
        "relay.count_tokens": relay.count_tokens,
        "relay.plain": relay.plain,
        "openai.models": models.list,
        "openai.model": models.show,
        "responses.create": relay.responses,
        "responses.input_tokens": relay.input_tokens,
        "responses.compact": relay.compact,
        "responses.show": responses.show,
        "responses.delete": responses.delete,
        "responses.input_items": responses.input_items,
        "responses.cancel": responses.cancel,
    }


def _server_endpoints(deps: RouteDeps) -> Mapping[str, Endpoint]:
    blobs, browsers, keys = BlobRoutes(deps), SignInRoutes(deps), KeyRoutes(deps)
    health, metrics, docs = HealthRoutes(deps), MetricsRoutes(deps), DocsRoutes()
    targets, quarantine, channels = TargetRoutes(deps), QuarantineRoutes(deps), ChannelRoutes(deps)
    memory, skills = MemoryRoutes(deps), SkillRoutes(deps)
    return {
        "skills.list": skills.list,
        "skills.show": skills.show,
        "memory.list": memory.list,
        "memory.history": memory.history,
        "memory.edit": memory.edit,
        "memory.decide": memory.decide,
        "memory.roll_back": memory.roll_back,
        "memory.forget": memory.forget,
        "channels.list": channels.list,
        "channels.pair": channels.pair,
        "channels.allow": channels.allow,
        "channels.revoke": channels.revoke,
        "channels.test": channels.test,
        "channels.log": channels.log,
        "channels.deliver": ChannelDeliveryRoutes(deps).deliver,
        "quarantine.list": quarantine.list,
        "quarantine.restore": quarantine.restore,
        "quarantine.delete": quarantine.delete,
        "blobs.upload": blobs.upload,
        "blobs.download": blobs.download,
        "browsers.sign_in": browsers.sign_in,
        "browsers.sign_out": browsers.sign_out,
        "browsers.link": browsers.link,
        "browsers.ticket": browsers.ticket,
        "keys.list": keys.list,
        "keys.add": keys.add,
        "keys.revoke": keys.revoke,
        "targets.list": targets.list,
        "targets.try_one": targets.try_one,
        "health.capabilities": health.capabilities,
        "health.detailed": health.detailed,
        "metrics.show": metrics.show,
        "usage.show": UsageRoutes(deps).show,
        "nodes.list": NodeRoutes(deps).list,
        "health.alive": health.alive,
        "health.ready": health.ready,
        "docs.openapi": docs.openapi,
        "docs.page": docs.page,
    }


def _trigger_endpoints(deps: RouteDeps) -> Mapping[str, Endpoint]:
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

    purges, disconnects = Purges(deps), Disconnects(deps)
    detached = DetachedCalls(deps.clock, join_s=deps.options.relay.join_s)
    kept = KeptCalls(CallRecords(deps.store), detached)

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncGenerator[None]:
        load = (deps.keys.added.load, deps.sign_ins.load, deps.marks.load, deps.peers.open)
        for part in (*load, partial(begin_figures, deps)):
            await once_readable(part, deps.clock, waits_out=AWAY)
        _warn_of_limits_without_a_key(deps)
        if deps.peers.exist:
            deps.tickets.key = deps.peers.key_for("tickets")
            deps.sign_ins.shared_links = SharedLinks(deps.store, deps.clock, deps.peers.key_for("links"))
        async with deps.supervisor:
            access = SharedNotes(deps.store, "access")
            works: dict[str, Callable[[], Awaitable[None]]] = {
                **_automations(deps, runner),
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
                await kept.close()
                await deps.lives.close()
                await deps.peers.close()

    bound = endpoints(deps, purges, disconnects, kept)
    routes = api_routes(OPERATIONS, deps.workspaces.guarded(OPERATIONS, bound))
    page = PageRoute(PageRoutes(deps.options.page))
    router = ApiRouter([*routes, page], lifespan=lifespan)
    drain = deps.supervisor.drain
    peers = PeerAdmission(deps.peers.seals, deps.keys)
    access = Access(deps.keys, deps.sign_ins, deps.tickets, agent.secrets, peers)
    app = _waiting(router, deps) if deps.options.requires_sandbox else router
    return AccessMiddleware(app, deps.options, access, drain=drain)


def _waiting(app: ASGIApp, deps: RouteDeps) -> ASGIApp:
    """The application; everything but its health waits until the required sandbox holds."""

    async def opened(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS:
            await deps.agent.until_opened()
        await app(scope, receive, send)

    return opened


def _automations(deps: RouteDeps, runner: RunnerLimits | None) -> dict[str, Callable[[], Awaitable[None]]]:
    """What acts by itself; not in a server that only does what it is asked."""
    if runner is not None and runner.resume_runs == "asked":
        return {}
    store, clock = deps.store, deps.clock

    async def own_trigger(trigger_id: str, fence: Fence) -> None:
        await TriggerOwner(trigger_id, fence, store=store, inbox=deps.inbox, clock=clock).work()

    owners = ClaimedLogs(store, clock, source=TRIGGER, own=own_trigger)
    return {"triggers": partial(_once_opened, deps, owners.run)}


async def _once_opened(deps: RouteDeps, work: Callable[[], Awaitable[None]]) -> None:
    """Do work that starts runs by itself: none is admitted before a required sandbox holds."""
    await deps.agent.until_opened()
    await work()


def _deps(
    agent: AgentDeps, streams: Streams, *, options: ServerOptions, runner: RunnerLimits | None
) -> RouteDeps:
    metrics = Metrics()
    redacting = RedactingStore(agent.store, redactor_source(agent.secrets))
    store = AttributedStore(MeteredStore(redacting, agent.clock, metrics))
    agent = replace(agent, store=store)
    supervisor = Supervisor(agent, runner)
    access = SharedNotes(agent.store, "access")
    peers = Peers(store, agent.clock)
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
        budgets=KeyBudgets(options.key_limits, agent.store, agent.clock),
        peers=peers,
        lives=SessionLives(agent, supervisor, peers, jobs=options.jobs),
        file_requests=FileRequests(store, peers),
        uploads=UploadQuota(agent.clock, options.limits.upload_bytes_per_day),
        workspaces=WorkspaceAccess(keys, folders, store=store, states=inbox.state),
    )


def _warn_of_limits_without_a_key(deps: RouteDeps) -> None:
    """Say which [[keys]] have no effect: a misspelled name would leave its key without limits."""
    names = [*deps.keys.configured, *(key.name for key in deps.keys.added.list())]
    for name in deps.budgets.unknown(names):
        _log.warning(
            "[[keys]]: no API key is named %r, so its limits have no effect; `holdfast keys list` shows the "
            "names, and `holdfast keys add` makes a key",
            name,
        )
