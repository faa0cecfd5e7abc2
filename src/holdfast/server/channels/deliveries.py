"""Takes updates that platforms deliver to channels.

Nothing of a body is read before the secret is right, and whoever doesn't know it learns nothing, also not
whether there is such a channel.
"""

from hashlib import sha256
from hmac import compare_digest
from os import urandom

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.channels import ChannelUpdateAccepted
from holdfast.server.channels.doors import BadUpdate
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_response, read_sent

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105  # the name of a header
AT_ONCE_MAX = 40


class ChannelDeliveryRoutes:
    """POST /hooks/channels/{name}."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._nobodys_secret = urandom(32).hex()
        self._reading = 0

    async def deliver(self, request: Request) -> Response:
        """Take an update of a platform."""
        name: str = request.path_params["name"]
        self._insist_on_secret(name, request.headers.get(SECRET_HEADER, ""))
        deliver = self._deps.channel_doors.get(name)
        if deliver is None or self._reading >= AT_ONCE_MAX:
            raise Problem(
                503, "Not now. Deliver it again later", code="too_busy", headers={"Retry-After": "2"}
            )
        limits = self._deps.limits
        self._reading += 1
        try:
            body = await read_sent(request, limits, bytes_max=limits.hook_bytes_max, within_s=limits.hook_s)
            await deliver(body)
        except BadUpdate as error:
            raise bad_request(str(error)) from error
        finally:
            self._reading -= 1
        return json_response(ChannelUpdateAccepted(accepted=True))

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


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
