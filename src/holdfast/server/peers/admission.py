"""Authenticates requests from other servers by signature, and checks the API key that the signature names.

Deliveries to channels have no key. The first server has checked their secret, so a signature without a key is
accepted for them, and nowhere else.
"""

from hashlib import sha256

from starlette.types import Message, Receive, Scope

from holdfast.server.access.auth import OPEN, KeyRing
from holdfast.server.peers.peers import PEER
from holdfast.server.peers.signatures import (
    HEADER,
    PeerSignature,
    PeerSignatures,
    SignatureRefused,
    target_of,
)
from holdfast.server.problems import Problem

KEYLESS = "/hooks/channels/"


class PeerAdmission:
    """Checks the signatures of questions that come in."""

    def __init__(self, signatures: PeerSignatures, keys: KeyRing) -> None:
        self._signatures = signatures
        self._keys = keys

    def signature_of(self, scope: Scope) -> PeerSignature | None:
        """The valid signature of a request; None if it has none. Raises a Problem if it has a wrong one."""
        found = [value for name, value in scope["headers"] if name == HEADER]
        if not found:
            return None
        try:
            return self._signatures.verify(found[0].decode("latin-1"), scope["method"], target_of(scope))
        except SignatureRefused as error:
            raise _refused(error) from error

    def admit(self, scope: Scope, signature: PeerSignature) -> str:
        """The name of the key on whose behalf the question is asked; raises a Problem."""
        try:
            self._signatures.use(signature)
        except SignatureRefused as error:
            raise _refused(error) from error
        if not self._is_known(scope["path"], signature.key):
            sender = signature.asker
            text = f"Server {sender} forwarded a key that isn't valid here. Give all servers the same keys"
            raise Problem(403, text, code="peer_key_unknown")
        scope[PEER] = signature.asker
        return signature.key

    def _is_known(self, path: str, key: str) -> bool:
        if path.startswith(KEYLESS):
            return not key
        return key == OPEN if self._keys.is_open else bool(self._keys.mark_of(key))


async def whole_body(receive: Receive, signature: PeerSignature, *, bytes_max: int) -> Receive:
    """Read the body and compare it with its signature; what it returns gives the same body again."""
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
        raise _refused(SignatureRefused("its body doesn't match"))
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
