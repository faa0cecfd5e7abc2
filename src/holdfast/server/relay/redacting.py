"""Removes secrets from a stream of bytes, where one may be split over two pieces."""

from holdfast.redaction import MARK, Redactor


class ByteFilter:
    """Passes bytes on as they are, except for secrets; holds back what may be the beginning of one."""

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = [text.encode() for text in secrets.texts]
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be passed on now."""
        data = self._held + piece if self._held else piece
        self._held = b""
        for secret in self._secrets:
            if secret in data:
                data = data.replace(secret, MARK.encode())
        if data.endswith(b"\n"):
            return data  # no secret contains the end of a line
        held = max((_overlap(data, secret) for secret in self._secrets), default=0)
        if held:
            data, self._held = data[:-held], data[-held:]
        return data

    def flush(self) -> bytes:
        """What was held back; call it at the end."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, secret: bytes) -> int:
    """How many of the last bytes may be the beginning of the secret."""
    at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(data[at:]):
            return len(data) - at
        at = data.find(secret[:1], at + 1)
    return 0
