"""The server: every route on one screen."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from starlette.routing import Route, Router

from holdfast.agent.deps import AgentDeps
from holdfast.api.openapi import DescriptionRoutes
from holdfast.journal.redacting import RedactingStore
from holdfast.metrics import Metrics
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import RunnerLimits, Supervisor
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.key_routes import KeyRoutes
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.signing_in import SignInRoutes
from holdfast.server.access.tickets import Tickets
from holdfast.server.api_route import Table, api_routes
from holdfast.server.blobs import BlobRoutes
from holdfast.server.deps import RouteDeps
from holdfast.server.grants import GrantRoutes
from holdfast.server.health import HealthRoutes
from holdfast.server.metered_store import MeteredStore
from holdfast.server.metrics import MetricsRoutes, begin_figures
from holdfast.server.openai.chat import OpenAIChatRoutes
from holdfast.server.openai.responses import OpenAIResponsesRoutes
from holdfast.server.options import ServerOptions
from holdfast.server.page import PageRoute, PageRoutes
from holdfast.server.runs.chat import ChatRoutes
from holdfast.server.runs.inputs import RunInputRoutes
from holdfast.server.runs.runs import RunRoutes
from holdfast.server.sessions.log import SessionLogRoutes
from holdfast.server.sessions.queue import QueueRoutes
from holdfast.server.sessions.read_marks import ReadMarks
from holdfast.server.sessions.sessions import SessionRoutes
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.stream import Streams
from holdfast.server.transport.edge import Edge
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.server.upkeep.purging import Purges
from holdfast.server.upkeep.session_changes import tell_news
from holdfast.server.upkeep.thinning import Thinning


def run_routes(deps: RouteDeps, runs: RunRoutes) -> Table:
    """Runs; they are used most, so they come first."""
    inputs, grants = RunInputRoutes(deps), GrantRoutes(deps)
    return [
        ("POST", "/v1/runs", runs.start),
        ("GET", "/v1/runs/{run_id}", runs.show),
        ("GET", "/v1/runs/{run_id}/events", runs.events),
        ("GET", "/v1/runs", runs.list),
        ("POST", "/v1/runs/{run_id}/stop", inputs.stop),
        ("POST", "/v1/runs/{run_id}/cancel", inputs.stop),
        ("POST", "/v1/runs/{run_id}/approval", inputs.approve),
        ("GET", "/v1/runs/{run_id}/approval/{approval_id}/rule", inputs.rule),
        ("POST", "/v1/runs/{run_id}/question/{question_id}", inputs.question),
        ("POST", "/v1/runs/{run_id}/steer", inputs.say),
        ("POST", "/v1/runs/{run_id}/messages", inputs.say),
        ("POST", "/v1/runs/{run_id}/retry", inputs.retry),
        ("POST", "/v1/runs/{run_id}/gate", inputs.gate),
        ("GET", "/v1/approvals", inputs.approvals),
        ("GET", "/api/approvals/rules", grants.list),
        ("DELETE", "/api/approvals/rules/{grant_id}", grants.revoke),
    ]


def session_routes(deps: RouteDeps, runs: RunRoutes, purges: Purges) -> Table:
    """Sessions."""
    sessions, log, queue = SessionRoutes(deps, purges), SessionLogRoutes(deps), QueueRoutes(deps)
    chat = ChatRoutes(deps, runs)
    one = "/api/sessions/{session_id}"
    return [
        ("GET", "/api/sessions", sessions.list),
        ("POST", "/api/sessions", sessions.create),
        ("GET", one, sessions.show),
        ("PATCH", one, sessions.change),
        ("DELETE", one, sessions.delete),
        ("POST", one + "/undelete", sessions.undelete),
        ("GET", one + "/draft", sessions.draft),
        ("PUT", one + "/draft", sessions.put_draft),
        ("GET", one + "/messages", log.messages),
        ("GET", one + "/events", log.events),
        ("POST", one + "/fork", log.fork),
        ("POST", one + "/rewind", log.rewind),
        ("GET", one + "/export", log.export),
        ("POST", one + "/chat", chat.chat),
        ("POST", one + "/chat/stream", chat.stream),
        ("GET", one + "/queue", queue.show),
        ("POST", one + "/queue/pause", queue.pause),
        ("POST", one + "/queue/resume", queue.resume),
        ("POST", one + "/queue/clear", queue.clear),
        ("PATCH", one + "/queue/{message_id}", queue.change),
        ("DELETE", one + "/queue/{message_id}", queue.remove),
    ]


def other_routes(deps: RouteDeps, runs: RunRoutes, disconnects: Disconnects) -> Table:
    """What plain OpenAI clients and the page need beside these, and the server itself."""
    openai, responses = (
        OpenAIChatRoutes(deps, runs, disconnects),
        OpenAIResponsesRoutes(deps, runs, disconnects),
    )
    blobs, signing, health = BlobRoutes(deps), SignInRoutes(deps), HealthRoutes(deps)
    keys = KeyRoutes(deps)
    return [
        ("GET", "/api/events", SessionLogRoutes(deps).news),
        ("POST", "/api/blobs", blobs.upload),
        ("GET", "/api/blobs/{blob}", blobs.download),
        ("POST", "/api/sign-in", signing.sign_in),
        ("POST", "/api/sign-out", signing.sign_out),
        ("POST", "/api/sign-in-links", signing.link),
        ("POST", "/api/tickets", signing.ticket),
        ("GET", "/api/keys", keys.list),
        ("POST", "/api/keys", keys.add),
        ("DELETE", "/api/keys/{name}", keys.revoke),
        ("POST", "/v1/chat/completions", openai.complete),
        ("GET", "/v1/models", openai.models),
        ("GET", "/v1/models/{model:path}", openai.model),
        ("POST", "/v1/responses", responses.create),
        ("GET", "/v1/responses/{response_id}", responses.show),
        ("DELETE", "/v1/responses/{response_id}", responses.delete),
        ("GET", "/v1/responses/{response_id}/input_items", responses.input_items),
        ("POST", "/v1/responses/{response_id}/cancel", responses.cancel),
        ("GET", "/api/targets", health.targets),
        ("GET", "/v1/capabilities", health.capabilities),
        ("GET", "/health/detailed", health.detailed),
        ("GET", "/metrics", MetricsRoutes(deps).show),
        ("GET", "/health", health.alive),
        ("GET", "/v1/health", health.alive),
    ]


def routes(deps: RouteDeps, purges: Purges, disconnects: Disconnects) -> list[Route]:
    """All routes."""
    runs = RunRoutes(deps, disconnects)
    table = [
        *run_routes(deps, runs),
        *session_routes(deps, runs, purges),
        *other_routes(deps, runs, disconnects),
    ]
    found: list[Route] = []
    about, page = DescriptionRoutes(found), PageRoutes(deps.options.page)
    table += [("GET", "/openapi.json", about.document), ("GET", "/docs", about.page)]
    found += api_routes(table)
    return [*found, PageRoute(page)]


def make_app(
    agent: AgentDeps,
    streams: Streams,
    *,
    options: ServerOptions | None = None,
    runner: RunnerLimits | None = None,
) -> Edge:
    """The application; its lifespan owns the supervisor, and the caller owns the store."""
    deps = _deps(agent, streams, options=options or ServerOptions(), runner=runner)

    purges, disconnects = Purges(deps), Disconnects(deps)

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncGenerator[None]:
        await deps.keys.added.load()
        await deps.sign_ins.load()
        await deps.marks.load()
        await begin_figures(deps)
        async with deps.supervisor:
            works = (purges.run(), Thinning(deps).run(), tell_news(deps), deps.options.open_files.watch())
            tasks = [asyncio.create_task(work) for work in works]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await disconnects.close()

    router = Router(routes(deps, purges, disconnects), redirect_slashes=False, lifespan=lifespan)
    drain = deps.supervisor.drain
    return Edge(
        router, deps.options, keys=deps.keys, sign_ins=deps.sign_ins, tickets=deps.tickets, drain=drain
    )


def _deps(
    agent: AgentDeps, streams: Streams, *, options: ServerOptions, runner: RunnerLimits | None
) -> RouteDeps:
    metrics = Metrics()
    store = MeteredStore(RedactingStore(agent.store, agent.secrets), agent.clock, metrics)
    agent = replace(agent, store=store)
    supervisor = Supervisor(agent, runner)
    keys = KeyRing(options.keys, AddedKeys(agent.store, agent.clock))
    return RouteDeps(
        agent=agent,
        supervisor=supervisor,
        inbox=Inbox(agent.store, supervisor, agent.clock),
        folds=Folds(agent.store, supervisor),
        streams=streams,
        keys=keys,
        sign_ins=SignIns(agent.store, agent.clock, keys),
        tickets=Tickets(agent.clock),
        options=options,
        marks=ReadMarks(agent.store),
        metrics=metrics,
    )
