"""Keeps secrets out: of text that comes in pieces, and of whole events."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from holdfast.codec import decode, encode
from holdfast.events import Event

CHARS_MIN = 6  # shorter than this, a "secret" is a word of every second sentence
MARK = "[redacted]"


class Redactor:
    """The texts that must not get out."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first, so that a key that contains another goes whole.
        self.texts = tuple(sorted({s for s in secrets if len(s) >= CHARS_MIN}, key=len, reverse=True))
        self._bytes = tuple(text.encode() for text in self.texts)
        # In JSON a quote or a backslash has another before it, and arguments may be JSON within a text.
        self._forms = tuple(dict.fromkeys(form for text in self.texts for form in (text, _in_json(text))))
        self._written = tuple(_in_json(form).encode() for form in self._forms)

    def redact_text(self, text: str) -> str:
        """The text without them."""
        return _without(self.texts, text)

    def redact_bytes(self, data: bytes) -> bytes:
        """The bytes without them."""
        for secret in self._bytes:
            data = data.replace(secret, MARK.encode())
        return data

    def redact(self, event: Event) -> Event:
        """The event without them, wherever in it they stand; mostly the same event."""
        if not self._written:
            return event
        body = encode(event)
        if not any(secret in body for secret in self._written):
            return event
        # Text by text: cut out of the bytes, one could take a backslash from what stands before it.
        return decode(msgspec.json.encode(self._redact_value(msgspec.json.decode(body))))

    def _redact_value(self, value: Any) -> Any:
        match value:
            case str():
                return _without(self._forms, value)
            case list():
                return [self._redact_value(each) for each in cast("list[Any]", value)]
            case dict():
                fields = cast("dict[str, Any]", value).items()
                return {_without(self._forms, name): self._redact_value(each) for name, each in fields}
            case _:
                return value


def _without(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MARK)
    return text


def _in_json(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


NO_SECRETS = Redactor()


class StreamFilter:
    """Text in, text out, with whatever may be the beginning of a secret held back until it is known."""

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if not self._secrets.texts:
            return text
        redact_text = self._secrets.redact_text
        text = self._held + text
        shown, self._held = self._parted(text)
        cleaned = redact_text(text)
        if cleaned != text:
            # A secret that may be the beginning of another is held as it is, unless a third would be cut.
            shown = redact_text(shown)
            if shown + redact_text(self._held) != cleaned:
                shown, self._held = self._parted(cleaned)
        return shown

    def flush(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return self._secrets.redact_text(held)

    def _parted(self, text: str) -> tuple[str, str]:
        """What can be shown, and the last characters, which could be the beginning of a secret."""
        longest = 0
        for secret in self._secrets.texts:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        at = len(text) - longest
        return (text[:at], text[at:]) if longest else (text, "")
