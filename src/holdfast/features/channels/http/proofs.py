"""Whether a delivery to a channel comes from its platform: Telegram sends a secret, Slack and bridges sign.

Every check takes the same time for a channel that exists and one that doesn't, and its refusal says the same.
"""

import asyncio
import logging
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from os import urandom

from holdfast.decisions.hook_signatures import HookDelivery, HookSignature, is_signed, likely_signature
from holdfast.features.channels.deps import ConfiguredChannel
from holdfast.interfaces.clock import Clock
from holdfast.server.problems import Problem

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105  # the name of a header
SIGNATURE_HEADERS = ("x-slack-signature", "webhook-signature")
QUIET_S = 60.0
_log = logging.getLogger(__name__)


class DeliveryProofs:
    """Checks what platforms send along to prove who they are."""

    def __init__(self, channels: Mapping[str, ConfiguredChannel], clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._nobodys_secret = urandom(32).hex()
        self._quiet_until_s: dict[str, float] = {}  # by channel

    def insist_on_secret(self, name: str, given: str) -> None:
        """Raise a Problem unless this is the secret of the channel's webhook."""
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
        kind = likely_signature(delivery)
        is_right = await asyncio.to_thread(self._is_signed, delivery, kind, wanted or self._nobodys_secret)
        if not is_right or not wanted or channel is None or channel.signature != kind:
            self._warn(name if wanted else "")
            raise _refusal()

    def _warn(self, name: str) -> None:
        """Say now and then that calls are refused: they may be Slack's own, if the secret is wrong."""
        now_s = self._clock.monotonic_s()
        if name and now_s >= self._quiet_until_s.get(name, 0.0):
            self._quiet_until_s[name] = now_s + QUIET_S
            _log.warning(
                "channel %s: rejected a request with a wrong or expired signature. If messages don't arrive, "
                "check signing_secret (Slack) or token (a bridge) and this machine's clock",
                name,
            )

    def _is_signed(self, delivery: HookDelivery, kind: HookSignature, secret: str) -> bool:
        return is_signed(delivery, kind, secret=secret, now_ms=self._clock.now_ms())


def _refusal() -> Problem:
    return Problem(
        401,
        "The secret or the signature is missing or wrong",
        code="bad_signature",
        headers={"Connection": "close"},
    )


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
