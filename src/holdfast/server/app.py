"""The server: every route on one screen."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.routing import Route, Router

from holdfast.agent.means import AgentMeans
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import RunnerLimits, Supervisor
from holdfast.server.auth import KeyRing, SignIns
from holdfast.server.edge import Edge
from holdfast.server.folds import Folds
from holdfast.server.health import HealthRoutes
from holdfast.server.means import ServerMeans
from holdfast.server.options import ServerOptions
from holdfast.server.run_inputs import RunInputRoutes
from holdfast.server.runs import RunRoutes
from holdfast.server.signing_in import SignInRoutes
from holdfast.server.stream import Streams


def routes(means: ServerMeans) -> list[Route]:
    """All routes; those that are used most come first."""
    runs, inputs, health = RunRoutes(means), RunInputRoutes(means), HealthRoutes(means)
    signing = SignInRoutes(means)
    table = [
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
        ("POST", "/api/sign-in", signing.sign_in),
        ("POST", "/api/sign-out", signing.sign_out),
        ("GET", "/health", health.alive),
        ("GET", "/v1/health", health.alive),
    ]
    return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]


def make_app(
    agent: AgentMeans,
    streams: Streams,
    *,
    options: ServerOptions | None = None,
    runner: RunnerLimits | None = None,
) -> Edge:
    """The application; its lifespan owns the supervisor, and the caller owns the store."""
    means = _means(agent, streams, options=options or ServerOptions(), runner=runner)

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncGenerator[None]:
        await means.sign_ins.load()
        async with means.supervisor:
            yield

    router = Router(routes(means), redirect_slashes=False, lifespan=lifespan)
    return Edge(router, means.options, keys=means.keys, sign_ins=means.sign_ins)


def _means(
    agent: AgentMeans, streams: Streams, *, options: ServerOptions, runner: RunnerLimits | None
) -> ServerMeans:
    supervisor = Supervisor(agent, runner)
    keys = KeyRing(options.keys)
    return ServerMeans(
        agent=agent,
        supervisor=supervisor,
        inbox=Inbox(agent.store, supervisor, agent.clock),
        folds=Folds(agent.store, supervisor),
        streams=streams,
        keys=keys,
        sign_ins=SignIns(agent.store, agent.clock, keys),
        options=options,
    )
