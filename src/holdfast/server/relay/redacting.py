"""Removes secrets from a provider's response, including secrets split over several deltas."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from holdfast.model_events import PIECES, ItemClosed, ModelEvent
from holdfast.redaction import MARK, Redactor

ITEMS_MAX = 1000  # whose text is watched
SHOWN_CHARS_MAX = 3  # of a secret's beginning that can pass: too few to reveal it
_FRAME = re.compile(rb".*?(?:\r?\n){2}", re.DOTALL)
_FRAME_ENDS = (b"\n\n", b"\n\r\n")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_NUMBERS = ("type", "index", "output_index", "content_index")  # identify the item of a delta

_Path: TypeAlias = tuple[object, ...]
_Item: TypeAlias = int | _Path  # an item of the answer, or a place in the JSON of frames


class FrameFilter:
    """Passes whole frames on, without secrets.

    `add_text` and `add_frame` get the text of each frame before `feed` gets its bytes. While the text of an
    item may be the beginning of a secret, the frames are held back.
    """

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._chars_max = max(map(len, secrets.texts), default=0)
        self._tails: dict[_Item, str] = {}  # the last text of each
        self._undecided: set[_Item] = set()  # those whose text may end with the beginning of a secret
        self._is_split = False  # the held frames have a secret, perhaps in several deltas
        self._held = b""

    def restart(self) -> None:
        """Forget the text of an attempt that is replaced."""
        self._tails.clear()
        self._undecided.clear()
        self._is_split = False

    def add_text(self, item: _Item, text: str) -> None:
        """Note text of an item."""
        secrets = self._secrets.texts
        if not secrets:
            return
        text = self._tails.pop(item, "") + text
        if any(secret in text for secret in secrets):
            self._is_split = True
            text = text[max(text.rfind(secret) + len(secret) for secret in secrets if secret in text) :]
        if len(self._tails) >= ITEMS_MAX:
            self._forget(next(iter(self._tails)))
        self._tails[item] = text[1 - self._chars_max :]
        if any(_may_end_with_beginning(text, secret) for secret in secrets):
            self._undecided.add(item)
        else:
            self._undecided.discard(item)

    def add_frame(self, data: bytes, events: Sequence[ModelEvent]) -> None:
        """Note the texts of a frame that its events don't have, such as those of a second choice."""
        if not self._secrets.texts:
            return
        read = [event.text for event in events if isinstance(event, PIECES)]
        if read and data.count(b'"delta"') == 1:
            return  # every token comes here, and an event has all text of a single delta
        for path, inside, key in _texts_in(_decoded(data), ()):
            if inside[key] in read:
                read.remove(inside[key])
            else:
                self.add_text(path, inside[key])

    def add_event(self, event: ModelEvent) -> None:
        """Note the text of an event, or that an item is complete."""
        if isinstance(event, PIECES):
            self.add_text(event.index, event.text)
        elif isinstance(event, ItemClosed):
            self._forget(event.index)

    def _forget(self, item: _Item) -> None:
        self._tails.pop(item, None)
        self._undecided.discard(item)

    def feed(self, piece: bytes) -> bytes:
        """The frames that can be passed on now."""
        if not self._secrets.texts:
            return piece
        data = self._held + piece
        end = 0 if self._undecided else _end_of_frames(data)
        whole, self._held = data[:end], data[end:]
        return self._cleaned(whole)

    def flush(self) -> bytes:
        """The remaining bytes; call it at the end."""
        held, self._held = self._held, b""
        self._undecided.clear()
        return self._cleaned(held)

    def flush_frames(self) -> bytes:
        """The whole frames of the rest; call it if the provider broke off."""
        self._held = self._held[: _end_of_frames(self._held)]
        return self.flush()

    def _cleaned(self, data: bytes) -> bytes:
        if data and self._is_split:
            self._is_split = False
            data = without_split_secrets(data, self._secrets)
        return self._secrets.redact_bytes(data)


def _end_of_frames(data: bytes) -> int:
    """Where the last whole frame ends; 0 if there is none."""
    return max(at + len(end) if (at := data.rfind(end)) >= 0 else 0 for end in _FRAME_ENDS)


def _may_end_with_beginning(text: str, secret: str) -> bool:
    """Whether the text ends with so much of the secret's beginning that it must not be shown."""
    start = secret[: SHOWN_CHARS_MAX + 1]
    at = text.find(start, max(0, len(text) - len(secret) + 1))
    while at >= 0 and not secret.startswith(text[at:]):
        at = text.find(start, at + 1)
    return at >= 0


class _Text(NamedTuple):
    """A text in the JSON of a frame, and where it is."""

    frame: int
    inside: Any  # a dict or a list
    key: Any
    text: str


def without_split_secrets(data: bytes, secrets: Redactor) -> bytes:
    """The frames, whose texts in the same place have no secret when they are joined."""
    frames = _FRAME.findall(data)
    rest = data[sum(map(len, frames)) :]
    values = [_json_in(frame) for frame in frames]
    places: dict[_Path, list[_Text]] = {}
    for at, value in enumerate(values):
        for path, inside, key in _texts_in(value, ()):
            places.setdefault(path, []).append(_Text(at, inside, key, inside[key]))
    changed: set[int] = set()
    for texts in places.values():
        joined = "".join(text.text for text in texts)
        cleaned = _without_rest(secrets.redact_text(joined), secrets)
        if cleaned != joined:
            for nth, text in enumerate(texts):
                text.inside[text.key] = "" if nth else cleaned
            changed.update(text.frame for text in texts)
    shown = [_with_json(frame, values[at]) if at in changed else frame for at, frame in enumerate(frames)]
    return b"".join((*shown, rest))


def _without_rest(text: str, secrets: Redactor) -> str:
    """The text without the rest of a secret whose first characters were shown before."""
    for secret in secrets.texts:
        for shown in range(1, SHOWN_CHARS_MAX + 1):
            if text.startswith(secret[shown:]):
                return MARK + text[len(secret) - shown :]
    return text


def _json_in(frame: bytes) -> Any:
    found = _DATA.findall(frame)
    return _decoded(found[0]) if len(found) == 1 else None


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # it isn't JSON, and is cleaned as bytes


def _with_json(frame: bytes, value: Any) -> bytes:
    data = b"data: " + msgspec.json.encode(value)
    return _DATA.sub(lambda _: data, frame, count=1)


def _texts_in(value: Any, path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
    """Every text in a JSON value, with its place: the same for all deltas of an item."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        path = (*path, *(table.get(name) for name in _NUMBERS if isinstance(table.get(name), str | int)))
        parts: Iterator[tuple[Any, Any]] = iter(table.items())
    elif isinstance(value, list):
        parts = enumerate(cast("list[Any]", value))
    else:
        return
    for key, part in parts:
        if isinstance(part, str):
            yield (*path, key), value, key
        else:
            yield from _texts_in(part, (*path, key))
