"""Keeps secrets out: of text that comes in pieces, and of whole events."""

from collections.abc import Iterable

import msgspec

from holdfast.codec import decode, encode
from holdfast.events import Event

CHARS_MIN = 6  # shorter than this, a "secret" is a word of every second sentence
MARK = "[redacted]"


class Secrets:
    """The texts that must not get out."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first, so that a key that contains another goes whole.
        self.texts = tuple(sorted({s for s in secrets if len(s) >= CHARS_MIN}, key=len, reverse=True))
        self._bytes = tuple(text.encode() for text in self.texts)
        # As they stand in an event on the disk, where a quote or a backslash has another before it.
        self._written = tuple(msgspec.json.encode(text)[1:-1] for text in self.texts)

    def out_of_text(self, text: str) -> str:
        """The text without them."""
        for secret in self.texts:
            if secret in text:
                text = text.replace(secret, MARK)
        return text

    def out_of_bytes(self, data: bytes) -> bytes:
        """The bytes without them."""
        return _without(self._bytes, data)

    def out_of(self, event: Event) -> Event:
        """The event without them, wherever in it they stand; mostly the same event."""
        if not self._written:
            return event
        body = encode(event)
        clean = _without(self._written, body)
        return event if clean is body else decode(clean)


def _without(secrets: tuple[bytes, ...], data: bytes) -> bytes:
    """The same bytes, if none of them is there."""
    for secret in secrets:
        if secret in data:
            data = data.replace(secret, MARK.encode())
    return data


NO_SECRETS = Secrets()


class StreamFilter:
    """Text in, text out, with whatever may be the beginning of a secret held back until it is known."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if not self._secrets.texts:
            return text
        text = self._secrets.out_of_text(self._held + text)
        held = self._beginning_at_the_end(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return held

    def _beginning_at_the_end(self, text: str) -> int:
        """How many of the last characters could be the beginning of a secret."""
        longest = 0
        for secret in self._secrets.texts:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        return longest
