"""The server: every route on one screen."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from holdfast import __version__
from holdfast.agent.means import AgentMeans
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import Supervisor
from holdfast.server import problems
from holdfast.server.runs import RunRoutes
from holdfast.server.stream import Streams


async def health(_: Request) -> Response:
    """GET /health."""
    return Response(f'{{"status":"ok","version":"{__version__}"}}', media_type="application/json")


def make_app(means: AgentMeans, streams: Streams) -> FastAPI:
    """The application; its lifespan owns the supervisor, and the caller owns the store."""
    supervisor = Supervisor(means)
    runs = RunRoutes(means.store, Inbox(means.store, supervisor, means.clock), streams)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with supervisor:
            yield

    app = FastAPI(title="Holdfast", version=__version__, lifespan=lifespan)
    problems.install(app)
    routes = [
        ("GET", "/health", health),
        ("GET", "/v1/health", health),
        ("POST", "/v1/runs", runs.start),
        ("GET", "/v1/runs/{run_id}", runs.show),
        ("GET", "/v1/runs/{run_id}/events", runs.events),
        ("POST", "/v1/runs/{run_id}/stop", runs.stop),
        ("POST", "/v1/runs/{run_id}/cancel", runs.stop),
    ]
    for method, path, endpoint in routes:
        app.router.add_route(path, endpoint, methods=[method])
    return app
