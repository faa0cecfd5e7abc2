"""Accepts platform updates for channels at any server of a cluster.

Nothing is parsed before the secret or signature is verified, and unauthenticated callers learn nothing, not
even whether the channel exists. The called server verifies the update; the server that owns the channel
processes it.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.channels.deps import ConfiguredChannel
from holdfast.features.channels.http.proofs import SECRET_HEADER, SIGNATURE_HEADERS, DeliveryProofs
from holdfast.features.channels.http.webhook_endpoints import BadUpdate, NotNow, WebhookEndpoints
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.nodes import Node
from holdfast.server.deps import RouteDeps
from holdfast.server.peers import PEER
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_response, read_sent

AT_ONCE_MAX = 100
UNPROVEN_MAX = 64
CHECK_S = 2.0  # how long a signature may take to be checked on a busy machine
ELSEWHERE_S = 2.5  # how long the server that holds the channel may take
SIGNED_S = 3.0  # how long a body may take whose sender isn't known before it is there; Slack waits no longer


class _Places(Struct):
    """Limits concurrent deliveries. Further ones must be retried later."""

    accepted: int = 0

    @contextmanager
    def one(self) -> Generator[None]:
        if self.accepted >= AT_ONCE_MAX:
            raise _not_now()
        self.accepted += 1
        try:
            yield
        finally:
            self.accepted -= 1


class _Unproven:
    """Bodies that are read before it is known who sends them; the slowest gives way to a new one.

    A call of Slack is there within milliseconds, so strangers who are slow can't keep it out.
    """

    def __init__(self) -> None:
        self._reading: dict[asyncio.Timeout, None] = {}  # the oldest first

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Read within the time, and until others need the place."""
        if len(self._reading) >= UNPROVEN_MAX:
            oldest = next(iter(self._reading))
            del self._reading[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(SIGNED_S + CHECK_S) as limit:
                self._reading[limit] = None
                try:
                    yield
                finally:
                    self._reading.pop(limit, None)
        except TimeoutError as error:
            raise _not_now() from error


class ChannelDeliveryRoutes:
    """POST /hooks/channels/{name}."""

    def __init__(self, deps: RouteDeps, channels: Mapping[str, ConfiguredChannel]) -> None:
        self._deps = deps
        self._proofs = DeliveryProofs(channels, deps.clock)
        # Unauthenticated callers can fill only the second; header secrets and quick requests aren't affected.
        self._proven, self._unproven = _Places(), _Unproven()

    async def deliver(self, request: Request) -> Response:
        """Take an update of a platform, or have the server take it that holds the channel."""
        name: str = request.path_params["name"]
        is_signed = any(name in request.headers for name in SIGNATURE_HEADERS)
        if PEER not in request.scope and is_signed:
            async with self._unproven.one():
                body = await self._body(request, within_s=SIGNED_S)
                await self._proofs.insist_on_signature(name, request.headers, body)
            with self._proven.one():
                return await self._accept(request, name, body)
        if PEER not in request.scope:  # another server of the cluster has checked it
            self._proofs.insist_on_secret(name, request.headers.get(SECRET_HEADER, ""))
        with self._proven.one():
            return await self._accept(request, name, await self._body(request))

    async def _body(self, request: Request, *, within_s: float = 0.0) -> bytes:
        limits = self._deps.limits
        whole_s = min(within_s or limits.hook_s, limits.hook_s)
        return await read_sent(request, limits, bytes_max=limits.hook_bytes_max, within_s=whole_s)

    async def _accept(self, request: Request, name: str, body: bytes) -> Response:
        """The answer once the update is on the log, here or elsewhere; raises a Problem."""
        deliver = self._deps.singleton(WebhookEndpoints).get(name)
        if deliver is not None:
            try:
                answer = await deliver(body)
            except BadUpdate as error:
                raise bad_request(str(error)) from error
            except NotNow as error:
                raise _not_now() from error
            return json_response(answer) if answer is not None else Response()
        # One that was passed on is never passed on again: the two servers would go on for ever.
        holder = None if PEER in request.scope else await self._holder(name)
        if holder is None:
            raise _not_now()
        return await self._deps.peers.forward(request, holder, body, has="the channel", answer_s=ELSEWHERE_S)

    async def _holder(self, name: str) -> Node | None:
        """The other server that holds the channel; None if there is none."""
        if not self._deps.peers.exist:
            return None
        place = await self._deps.store.place(channel_log_id(name))
        if place.owner in {"", self._deps.store.node.name}:
            return None
        return Node(place.owner, place.url)


def _not_now() -> Problem:
    return Problem(
        503, "Can't accept deliveries now. Retry later", code="too_busy", headers={"Retry-After": "2"}
    )
