"""How a server proves to another one that a question is its own: a seal, made with a secret of the store."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import OrderedDict
from hashlib import sha256

import msgspec
from starlette.types import Scope

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Notes

HEADER = b"x-holdfast-peer"
NOTE = "cluster/secret"
WINDOW_MS = 5_000  # a question that was sealed longer ago is refused, and one from the future too
SEEN_MAX = 50_000  # questions within the window; beyond that they are refused
_SEAL_CHARS_MAX = 2_000


class SealRefused(Exception):
    """The seal is not one of this cluster's servers, or it is too old, or it was used already."""


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """The calling server and the key it acts for. `mac` covers everything else and the request."""

    at_ms: int
    nonce: str
    asker: str
    key: str
    body_digest: str
    mac: str = ""


class Question(msgspec.Struct, frozen=True):
    """A request to another server; `target` is the path with its query as sent, `to` that server's name."""

    to: str
    method: str
    target: str
    body: bytes = b""


def target_of(scope: Scope) -> str:
    """The path and query of a request, exactly as they were sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return (raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")


async def cluster_secret(notes: Notes) -> bytes:
    """Return the secret of all servers that share the store. Created on first use."""
    while (found := await notes.note(NOTE)) is None:
        await notes.swap_note(NOTE, secrets.token_bytes(32), expected=None)
    return found


class Seals:
    """Makes and checks seals. `key` is the cluster's secret, set before the first question."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self.key = b""
        self._seen: OrderedDict[str, int] = OrderedDict()

    def sealed(self, question: Question, *, key_name: str) -> str:
        """The value of the header for a question on behalf of an API key."""
        digest = sha256(question.body).hexdigest()
        seal = Seal(self._clock.now_ms(), secrets.token_hex(16), self._name, key_name, digest)
        whole = msgspec.structs.replace(seal, mac=self._mac(seal, question))
        return urlsafe_b64encode(msgspec.json.encode(whole)).decode()

    def opened(self, header: str, method: str, target: str) -> Seal:
        """The seal of a question to this server, whose body is compared later; raises SealRefused."""
        try:
            raw = urlsafe_b64decode(header[:_SEAL_CHARS_MAX].encode())
            seal = msgspec.json.decode(raw, type=Seal)
        except (ValueError, NotBase64, msgspec.MsgspecError) as error:
            raise SealRefused("it's malformed") from error
        mac = self._mac(seal, Question(self._name, method, target))
        if not self.key or not hmac.compare_digest(mac.encode(), seal.mac.encode("utf-8", "replace")):
            raise SealRefused("it isn't valid here")
        if abs(self._clock.now_ms() - seal.at_ms) > WINDOW_MS:
            raise SealRefused(f"its time is off by more than {WINDOW_MS // 1000} seconds; compare the clocks")
        return seal

    def use(self, seal: Seal) -> None:
        """Accept a seal once; raises SealRefused the second time."""
        now_ms = self._clock.now_ms()
        while self._seen and next(iter(self._seen.values())) < now_ms - 2 * WINDOW_MS:
            self._seen.popitem(last=False)
        if seal.nonce in self._seen or len(self._seen) >= SEEN_MAX:
            raise SealRefused("it was already used")
        self._seen[seal.nonce] = now_ms

    def _mac(self, seal: Seal, question: Question) -> str:
        said = (
            *(seal.at_ms, seal.nonce, seal.asker, seal.key, seal.body_digest),
            *(question.to, question.method, question.target),
        )
        return hmac.new(self.key, msgspec.json.encode(said), sha256).hexdigest()
