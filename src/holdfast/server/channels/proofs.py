"""Whether a delivery to a channel comes from its platform: Telegram sends a secret, Slack signs each body.

Every check takes the same time for a channel that exists and one that doesn't, and its refusal says the same.
"""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from os import urandom

from holdfast.decisions.hook_signatures import HookDelivery, is_signed
from holdfast.interfaces.clock import Clock
from holdfast.server.options import ConfiguredChannel
from holdfast.server.problems import Problem

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105  # the name of a header
SIGNATURE_HEADER = "x-slack-signature"


class DeliveryProofs:
    """Checks what platforms send along to prove who they are."""

    def __init__(self, channels: Mapping[str, ConfiguredChannel], clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._nobodys_secret = urandom(32).hex()

    def insist_on_secret(self, name: str, given: str) -> None:
        """Raise a Problem unless this is the secret that the channel's platform was told."""
        channel = self._channels.get(name)
        wanted = channel.hook_secret if channel is not None else ""
        is_right = compare_digest(_digest(given), _digest(wanted or self._nobodys_secret))
        if not is_right or not wanted:
            raise _refusal()

    async def insist_on_signature(self, name: str, headers: Mapping[str, str], body: bytes) -> None:
        """Raise a Problem unless the body is signed with the channel's signing secret, not long ago."""
        channel = self._channels.get(name)
        wanted = channel.signing_secret if channel is not None else ""
        delivery = HookDelivery(headers, body)
        is_right = await asyncio.to_thread(self._is_signed, delivery, wanted or self._nobodys_secret)
        if not is_right or not wanted:
            raise _refusal()

    def _is_signed(self, delivery: HookDelivery, secret: str) -> bool:
        return is_signed(delivery, "slack", secret=secret, now_ms=self._clock.now_ms())


def _refusal() -> Problem:
    return Problem(
        401,
        "The secret or the signature is missing or wrong",
        code="bad_signature",
        headers={"Connection": "close"},
    )


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
