"""Takes updates that platforms deliver to channels, at whichever server of a cluster they arrive.

Nothing of a body is read before the secret is right, and whoever doesn't know it learns nothing, also not
whether there is such a channel. The server that was called checks the secret; the one that holds the channel
takes the update.
"""

from hashlib import sha256
from hmac import compare_digest
from os import urandom

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.channels import ChannelUpdateAccepted
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.nodes import Node
from holdfast.server.channels.doors import BadUpdate
from holdfast.server.deps import RouteDeps
from holdfast.server.peers.peers import PEER
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_response, read_sent

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105  # the name of a header
AT_ONCE_MAX = 40
ELSEWHERE_S = 20.0  # how long the server that holds the channel may take


class ChannelDeliveryRoutes:
    """POST /hooks/channels/{name}."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._nobodys_secret = urandom(32).hex()
        self._reading = 0

    async def deliver(self, request: Request) -> Response:
        """Take an update of a platform, or have the server take it that holds the channel."""
        name: str = request.path_params["name"]
        if PEER not in request.scope:  # another server of the cluster has checked it
            self._insist_on_secret(name, request.headers.get(SECRET_HEADER, ""))
        if self._reading >= AT_ONCE_MAX:
            raise _not_now()
        limits = self._deps.limits
        self._reading += 1
        try:
            body = await read_sent(request, limits, bytes_max=limits.hook_bytes_max, within_s=limits.hook_s)
            return await self._take(request, name, body)
        except BadUpdate as error:
            raise bad_request(str(error)) from error
        finally:
            self._reading -= 1

    async def _take(self, request: Request, name: str, body: bytes) -> Response:
        """The answer once the update is on the log, here or elsewhere; raises a Problem."""
        deliver = self._deps.channel_doors.get(name)
        if deliver is not None:
            await deliver(body)
            return json_response(ChannelUpdateAccepted(accepted=True))
        # One that was passed on is never passed on again: the two servers would go on for ever.
        holder = None if PEER in request.scope else await self._holder(name)
        if holder is None:
            raise _not_now()
        return await self._deps.peers.pass_on(request, holder, body, has="the channel", answer_s=ELSEWHERE_S)

    async def _holder(self, name: str) -> Node | None:
        """The other server that holds the channel; None if there is none."""
        if not self._deps.peers.exist:
            return None
        place = await self._deps.store.place(channel_log_id(name))
        if place.owner in {"", self._deps.store.node.name}:
            return None
        return Node(place.owner, place.url)

    def _insist_on_secret(self, name: str, given: str) -> None:
        """Raise a Problem unless the secret is that of the channel; it takes the same time either way."""
        channel = self._deps.options.channels.get(name)
        wanted = channel.hook_secret if channel is not None and channel.hook_secret else ""
        is_right = compare_digest(_digest(given), _digest(wanted or self._nobodys_secret))
        if not is_right or not wanted:
            raise Problem(
                401,
                "The secret is missing or wrong",
                code="bad_signature",
                headers={"Connection": "close"},
            )


def _not_now() -> Problem:
    return Problem(503, "Not now. Deliver it again later", code="too_busy", headers={"Retry-After": "2"})


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
