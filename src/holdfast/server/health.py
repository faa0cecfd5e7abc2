"""Health and discovery: is it alive, what can it do."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.server.bodies import raw_answer
from holdfast.server.means import ServerMeans

_ALIVE = msgspec.json.encode({"status": "ok", "version": __version__, "platform": "holdfast"})


class HealthRoutes:
    """What the routes about the server itself do."""

    def __init__(self, means: ServerMeans) -> None:
        self._means = means

    async def alive(self, request: Request) -> Response:
        """GET /health and /v1/health."""
        del request
        return raw_answer(_ALIVE)
