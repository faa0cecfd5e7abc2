"""Authenticates requests from other servers by signature, and checks the API key that the signature names.

Deliveries to channels have no key. The first server has checked their secret, so a signature without a key is
accepted for them, and nowhere else.
"""

from hashlib import sha256

from starlette.types import Message, Receive, Scope

from holdfast.features.postgres.peers.signatures import (
    HEADER,
    PeerSignature,
    PeerSignatures,
    SignatureRefused,
    target_of,
)
from holdfast.server.access.auth import OPEN, KeyRing
from holdfast.server.peers import PEER
from holdfast.server.problems import Problem

KEYLESS = "/hooks/channels/"


class PeerAdmission:
    """Checks the signatures of requests that come in."""

    def __init__(self, signatures: PeerSignatures, keys: KeyRing) -> None:
        self._signatures = signatures
        self._keys = keys

    def signature_of(self, scope: Scope) -> PeerSignature | None:
        """Return a request's valid signature, or None if it has none; raises a Problem for a wrong one."""
        found = [value for name, value in scope["headers"] if name == HEADER]
        if not found:
            return None
        try:
            return self._signatures.verify(found[0].decode("latin-1"), scope["method"], target_of(scope))
        except SignatureRefused as error:
            raise _refused(error) from error

    async def admit(self, scope: Scope, receive: Receive, *, bytes_max: int) -> tuple[str, Receive] | None:
        """See `Peers.admit`."""
        signature = self.signature_of(scope)
        if signature is None:
            return None
        try:
            self._signatures.use(signature)
            if not self._is_known(scope["path"], signature.key):
                raise Problem(
                    403,
                    f"Server {signature.asker} forwarded a key that isn't valid here. Give all servers the "
                    "same keys",
                    code="peer_key_unknown",
                )
            scope[PEER] = signature.asker
            return signature.key, await _whole_body(receive, signature, bytes_max=bytes_max)
        except SignatureRefused as error:
            raise _refused(error) from error

    def _is_known(self, path: str, key: str) -> bool:
        if path.startswith(KEYLESS):
            return not key
        return key == OPEN if self._keys.is_open else bool(self._keys.mark_of(key))


async def _whole_body(receive: Receive, signature: PeerSignature, *, bytes_max: int) -> Receive:
    """Read the body and compare it with its signature; the result gives the same body again.

    Raises SignatureRefused, or a Problem if the body is too large.
    """
    pieces: list[bytes] = []
    size, is_more = 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            text = f"The request body is larger than the limit of {bytes_max} bytes for this path"
            raise Problem(413, text, code="body_too_large")
        pieces.append(piece)
        is_more = message.get("more_body", False)
    body = b"".join(pieces)
    if sha256(body).hexdigest() != signature.body_digest:
        raise SignatureRefused("its body doesn't match")
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _refused(error: SignatureRefused) -> Problem:
    return Problem(401, f"Rejected the signature of another server's request: {error}", code="peer_refused")
