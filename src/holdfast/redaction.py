"""Redaction: what removes secrets from texts, bytes, events and streams of text.

This is the whole list of places where secrets are removed before anything is stored or shown:

- inputs (messages, titles, answers) and blobs: every store (`journal.log_store`) needs a redactor;
- files that come with a message or are uploaded: `server.message_content` and `server.blobs`;
- errors over HTTP, and names that contain a key: `server.access.request_secrets`, which also knows the key
  that the caller sent;
- events of a run: `agent.runlog.RunLog`, before an event is appended or put into the spool;
- text and reasoning of the model, where a key may be split over two deltas: `StreamFilter` in `RunLog`;
- output of a running tool, which is cut anywhere, too: `StreamFilter` in `agent.calls`;
- texts that are stored as notes (drafts) or compared before they are stored (titles):
  `server.sessions.sessions`;
- lines of the log file: `host.logs`;
- what the relay passes on, where a key may be split over deltas: `features.relay.redacting`;
- what is typed in the terminal chat, before it's kept for the arrow keys: `cli.chat.history`;
- imported histories, also by the form of keys: `features.transcripts.log`; findings of the doctor:
  `host.probe`.

The servers of a process (one for each profile) and its log share one redactor, so each removes the keys of
all.

What a provider echoes in an error is cleaned where the error is read (`decisions.failure_texts`), before it
becomes an event.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, cast

import msgspec

from holdfast.codec import decode, encodable, encode
from holdfast.events import Event

CHARS_MIN = 6  # anything shorter is likely to occur in ordinary text
MARK = "[redacted]"
_SHORT_ESCAPES = '"\\/'  # characters that JSON can escape with a backslash
# The forms of common providers' keys, and our own; a digit tells them from ordinary words with dashes.
_LIKE_KEY = re.compile(
    r"(?<![A-Za-z0-9_-])(?:(?:sk|rk|pk|hf|gsk|xai|xox[abp]|gh[opsu]|github_pat)[-_]|AIza)"
    r"(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}",
    re.ASCII,
)


def is_like_key(text: str) -> bool:
    """Whether some part of the text is formed like an API key."""
    return _LIKE_KEY.search(text) is not None


def without_keys(text: str) -> str:
    """The text without anything that is formed like an API key, for texts that no program reads again."""
    return _LIKE_KEY.sub(MARK, text)


class Redactor:
    """Replaces a fixed set of secrets wherever they occur."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first, so that a key that contains another is removed as a whole.
        self.texts = tuple(sorted({s for s in secrets if len(s) >= CHARS_MIN}, key=len, reverse=True))
        self._bytes = tuple(text.encode() for text in self.texts)
        # JSON escapes quotes and backslashes, and a tool's arguments may be JSON inside a text.
        self._forms = tuple(
            dict.fromkeys(form for text in self.texts for form in (text, _json_escaped(text)))
        )
        self._encoded_forms = tuple(_json_escaped(form).encode() for form in self._forms)

    def also(self, secrets: Iterable[str]) -> "Redactor":
        """One that replaces these secrets too; the same one if they're known or too short."""
        more = [one for one in secrets if len(one) >= CHARS_MIN and one not in self.texts]
        return Redactor([*self.texts, *more]) if more else self

    def exchange(self, *, learn: Iterable[str], forget: Iterable[str]) -> None:
        """Replace other secrets from now on, everywhere that this redactor is used: tokens are renewed."""
        kept = set(self.texts).difference(forget)
        if not kept.issuperset(more := [one for one in learn if len(one) >= CHARS_MIN]):
            Redactor.__init__(self, [*kept, *more])
            self.__dict__.pop("_spellings", None)
            self.__dict__.pop("_has_short_escapes", None)

    def redact_text(self, text: str) -> str:
        """The text without secrets."""
        return _without(self.texts, text)

    def redact_bytes(self, data: bytes) -> bytes:
        """The bytes without secrets, also where JSON escapes some of their characters."""
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MARK.encode())
        if self._bytes and b"\\" in data and (b"\\u" in data or self._has_short_escapes):
            data = self._spellings.sub(MARK.encode(), data)
        return data

    @cached_property
    def _has_short_escapes(self) -> bool:
        return any(char in text for text in self.texts for char in _SHORT_ESCAPES)

    @cached_property
    def _spellings(self) -> re.Pattern[bytes]:
        """Every way to write one of the secrets in JSON, or in JSON inside of JSON."""
        return re.compile(b"|".join(b"".join(map(_spelling, text)) for text in self.texts))

    def redact(self, event: Event) -> Event:
        """The event without secrets in any of its fields; usually the same event."""
        return self._redacted(event, encode(event))[0] if self._encoded_forms else event

    def stored(self, event: Event) -> tuple[Event, bytes]:
        """The event as it can be stored, without secrets and encodable, and its body."""
        return self._redacted(*encodable(event)) if self._encoded_forms else encodable(event)

    def _redacted(self, event: Event, body: bytes) -> tuple[Event, bytes]:
        for secret in self._encoded_forms:
            if secret in body:
                # Text by text: replacing in the encoded bytes could break an escape sequence.
                redacted = decode(msgspec.json.encode(self._redact_value(msgspec.json.decode(body))))
                return redacted, encode(redacted)
        return event, body

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


def _spelling(char: str) -> bytes:
    """A pattern for a character of a secret: as it is, by its number, or behind backslashes."""
    units = char.encode("utf-16-be", "surrogatepass")
    numbers = [units[at : at + 2].hex().encode() for at in range(0, len(units), 2)]
    plain = re.escape(char.encode("utf-8", "surrogatepass"))
    ways = [plain, b"".join(rb"\\+u(?i:%b)" % number for number in numbers)]
    if char in _SHORT_ESCAPES:
        ways.append(rb"\\+" + plain)
    return b"(?:%b)" % b"|".join(ways)


def _json_escaped(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


NO_SECRETS = Redactor()


class StreamFilter:
    """Redacts a stream of text: holds back what may be the beginning of a secret until more text decides."""

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self.held = ""  # back, because a secret may begin with it

    def feed(self, text: str) -> str:
        """The part that can be shown now."""
        if not self._secrets.texts:
            return text
        redact_text = self._secrets.redact_text
        text = self.held + text
        shown, self.held = self._split_off_tail(text)
        cleaned = redact_text(text)
        if cleaned != text:
            # A secret that may begin a longer one stays held back, unless that would split a third.
            shown = redact_text(shown)
            if shown + redact_text(self.held) != cleaned:
                shown, self.held = self._split_off_tail(cleaned)
        return shown

    def flush(self) -> str:
        """The text that was held back; call it when the stream has ended."""
        held, self.held = self.held, ""
        return self._secrets.redact_text(held)

    def _split_off_tail(self, text: str) -> tuple[str, str]:
        """The part that can be shown, and the last characters, which may be the beginning of a secret."""
        longest = 0
        for secret in self._secrets.texts:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        at = len(text) - longest
        return (text[:at], text[at:]) if longest else (text, "")
