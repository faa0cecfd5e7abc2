"""Signs and verifies requests between servers, with a secret that their store holds."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import OrderedDict
from hashlib import sha256

import msgspec
from starlette.types import Scope

from holdfast.interfaces.clock import Clock

HEADER = b"x-holdfast-peer"
WINDOW_MS = 5_000  # a question that was signed longer ago is refused, and one from the future too
SEEN_MAX = 50_000  # questions within the window; beyond that they are refused
_SIGNATURE_CHARS_MAX = 2_000


class SignatureRefused(Exception):
    """The signature isn't from this cluster, is too old, or was used already."""


class PeerSignature(msgspec.Struct, frozen=True, array_like=True):
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


class PeerSignatures:
    """Signs requests and verifies signatures with `key`, the cluster's secret. Set it first."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self.key = b""
        self._seen: OrderedDict[str, int] = OrderedDict()

    def sign(self, question: Question, *, key_name: str) -> str:
        """The value of the header for a question on behalf of an API key."""
        digest = sha256(question.body).hexdigest()
        signature = PeerSignature(self._clock.now_ms(), secrets.token_hex(16), self._name, key_name, digest)
        whole = msgspec.structs.replace(signature, mac=self._mac(signature, question))
        return urlsafe_b64encode(msgspec.json.encode(whole)).decode()

    def verify(self, header: str, method: str, target: str) -> PeerSignature:
        """Return the signature of a request, without checking its body; raises SignatureRefused."""
        try:
            raw = urlsafe_b64decode(header[:_SIGNATURE_CHARS_MAX].encode())
            signature = msgspec.json.decode(raw, type=PeerSignature)
        except (ValueError, NotBase64, msgspec.MsgspecError) as error:
            raise SignatureRefused("it's malformed") from error
        mac = self._mac(signature, Question(self._name, method, target))
        if not self.key or not hmac.compare_digest(mac.encode(), signature.mac.encode("utf-8", "replace")):
            raise SignatureRefused("it isn't valid here")
        if abs(self._clock.now_ms() - signature.at_ms) > WINDOW_MS:
            raise SignatureRefused(
                f"its time is off by more than {WINDOW_MS // 1000} seconds; compare the clocks"
            )
        return signature

    def use(self, signature: PeerSignature) -> None:
        """Accept a signature once; raises SignatureRefused the second time."""
        now_ms = self._clock.now_ms()
        while self._seen and next(iter(self._seen.values())) < now_ms - 2 * WINDOW_MS:
            self._seen.popitem(last=False)
        if signature.nonce in self._seen or len(self._seen) >= SEEN_MAX:
            raise SignatureRefused("it was already used")
        self._seen[signature.nonce] = now_ms

    def _mac(self, signature: PeerSignature, question: Question) -> str:
        said = (
            *(signature.at_ms, signature.nonce, signature.asker, signature.key, signature.body_digest),
            *(question.to, question.method, question.target),
        )
        return hmac.new(self.key, msgspec.json.encode(said), sha256).hexdigest()
