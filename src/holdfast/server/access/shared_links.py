"""Links to sign in that work at any of the servers that share a store, once."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Notes
from holdfast.server.access.keys import digest_of

LINK_MS = 10 * 60_000
_USED = "sign_in_link:"
_TOKEN_CHARS_MAX = 1_000


class _Link(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token."""

    key: str
    until_ms: int
    nonce: str


class SharedLinks:
    """Makes tokens that say whom they sign in, under a key of all servers; a note says what was used."""

    def __init__(self, notes: Notes, clock: Clock, key: bytes) -> None:
        self._notes = notes
        self._clock = clock
        self._key = key

    def new(self, key_name: str) -> str:
        """A token that signs in once, within ten minutes."""
        link = _Link(key_name, self._clock.now_ms() + LINK_MS, secrets.token_hex(16))
        said = urlsafe_b64encode(msgspec.json.encode(link)).decode().rstrip("=")
        return f"{said}.{self._mac(said)}"

    async def used(self, token: str) -> str:
        """The name of the key that it signs in with, the first time; empty if it is not, or no longer, valid.

        A store that can't take writes raises, and the token stays valid.
        """
        said, _, mac = token[:_TOKEN_CHARS_MAX].partition(".")
        if not hmac.compare_digest(self._mac(said).encode(), mac.encode("utf-8", "replace")):
            return ""
        link = msgspec.json.decode(urlsafe_b64decode(said + "=" * (-len(said) % 4)), type=_Link)
        now_ms = self._clock.now_ms()
        if not now_ms < link.until_ms <= now_ms + LINK_MS:
            return ""
        note, until = _USED + digest_of(token).hex(), str(link.until_ms).encode()
        if not await self._notes.swap_note(note, until, expected=None):
            return ""
        await self._forget_old(now_ms)
        return link.key

    async def _forget_old(self, now_ms: int) -> None:
        for note, until in (await self._notes.notes(_USED)).items():
            if int(until) < now_ms:
                await self._notes.drop_note(note)

    def _mac(self, said: str) -> str:
        return hmac.new(self._key, said.encode("utf-8", "replace"), sha256).hexdigest()
