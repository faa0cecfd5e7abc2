"""Removes secrets from a provider's response, including secrets split over several deltas."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

from holdfast.redaction import CHARS_MIN, MARK, Redactor

HELD_BYTES_MAX = 256 * 1024  # past this, the beginning of a secret is redacted and nothing is held back
PLACES_MAX = 1000  # whose text ends with the beginning of a secret
SHOWN_CHARS_MAX = 3  # of a secret's beginning that can pass: too few to reveal it
_FRAME_END = re.compile(rb"(?:\r\n|\r(?!\n)|\n){2}")
_FRAME_END_BYTES_MAX = 4
_BOM = b"\xef\xbb\xbf"
_DATA = re.compile(rb"data(?:: ?|$)")
_ENDING_BYTES = 8  # of a secret that are looked for at the end of a text
# Fields that tell the items of an answer apart. Providers leave some of them out of some deltas.
_ITEM_NUMBERS = ("index", "output_index")
_NUMBERS = (*_ITEM_NUMBERS, "content_index", "summary_index")
_IDS = ("id", "item_id", "call_id", "type")
# Fields that aren't part of an item's text, so they can come between its deltas.
_LABELS = frozenset(
    (
        *_IDS,
        "finish_reason",
        "model",
        "name",
        "obfuscation",
        "object",
        "role",
        "service_tier",
        "status",
        "stop_reason",
        "system_fingerprint",
    )
)

_Place: TypeAlias = tuple[object, ...]
_Trail: TypeAlias = tuple[tuple[Any, Any], ...]  # the tables and lists around a text, each with the key in it


def _places(trail: _Trail) -> Iterator[_Place]:
    """The places of a text; some client may join the texts of any of them, as packages differ in that."""
    position = tuple(key for _, key in trail)
    names = tuple(key for key in position if isinstance(key, str))
    numbers = _fields(trail, _NUMBERS)
    yield "by index", names, numbers
    yield "by id", names, numbers, _fields(trail, _IDS)
    yield "by position", position
    name = names[-1] if names else ""
    yield "by name", name
    if name not in _LABELS:
        yield "by item", _fields(trail, _ITEM_NUMBERS)
        yield ("by order",)


def _fields(trail: _Trail, names: Sequence[str]) -> _Place:
    """The fields with these names, of all tables around a text."""
    tables = [cast("dict[str, Any]", around) for around, _ in trail if isinstance(around, dict)]
    found = ((name, table.get(name)) for table in tables for name in names)
    return tuple((name, str(value)) for name, value in found if isinstance(value, str | int))


class _Text:
    """A text in the JSON of a frame."""

    __slots__ = ("_cuts", "is_cut", "is_shown", "raw", "trail")

    def __init__(self, raw: str, trail: _Trail) -> None:
        self.raw = raw
        self.trail: _Trail = trail
        self.is_shown = False
        self.is_cut = False
        self._cuts: dict[int, str] = {}  # what is shown instead of a character

    def first(self, chars: int) -> "_Joined":
        """Its beginning, without backslashes."""
        found = islice((at for at, char in enumerate(self.raw) if char != "\\"), chars)
        return self._joined(list(found))

    def last(self, chars: int) -> "_Joined":
        """Its end, without backslashes."""
        backwards = range(len(self.raw) - 1, -1, -1)
        found = islice((at for at in backwards if self.raw[at] != "\\"), chars)
        return self._joined(list(found)[::-1])

    def _joined(self, found: list[int]) -> "_Joined":
        return _Joined("".join(self.raw[at] for at in found), [(self, at) for at in found])

    def cut(self, start: int, end: int, *, mark: str) -> None:
        """Show a mark instead of these characters."""
        self.is_cut = True
        for at in range(start, end):
            self._cuts.setdefault(at, "" if at > start else mark)

    def show(self) -> None:
        """Write it into its frame, which is passed on now."""
        if self.is_cut:
            inside, key = self.trail[-1]
            inside[key] = "".join(self._cuts.get(at, char) for at, char in enumerate(self.raw))
        self.is_shown, self.raw, self.trail = True, "", ()


class _Joined(NamedTuple):
    """Joined text without backslashes, as they may escape any character, and the source of each character."""

    chars: str
    sources: Sequence[tuple[_Text, int]]

    def cut(self, start: int, end: int) -> None:
        """Show a mark instead of these characters, as far as they aren't shown yet."""
        spans: dict[_Text, tuple[int, int]] = {}
        for text, at in self.sources[start:end]:
            begun = spans[text][0] if text in spans else 0 if spans else at
            spans[text] = begun, at + 1
        last, mark = self.sources[end - 1][0], MARK
        for text, (first, after) in spans.items():
            if not text.is_shown:
                text.cut(first, after if text is last else len(text.raw), mark=mark)
                mark = ""


class _Frame(NamedTuple):
    data: bytes
    value: Any = None  # of its JSON
    texts: Sequence[_Text] = ()

    def shown(self) -> bytes:
        """The frame without what was cut."""
        is_cut = any(text.is_cut for text in self.texts)
        for text in self.texts:
            text.show()
        return _with_json(self.data, self.value) if is_cut else self.data


class FrameFilter:
    """Passes whole frames on, without secrets.

    Each text of a frame is joined to the earlier ones in every place where a client may join it. While one of
    these ends with the beginning of a secret, the frames are held back.
    """

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._forms = _forms(secrets.texts)
        self._chars_max = max(map(len, self._forms), default=0)
        self._pairs = {form[max(0, at - 1) : at + 1] for form in self._forms for at in range(len(form))}
        self._ending = _ending_pattern(self._forms)
        self._beginnings: dict[_Place, _Joined] = {}  # of secrets, at the end of the text of each place
        self._frames: list[_Frame] = []  # held back
        self._frames_bytes = 0
        self._rest: list[bytes] = []  # of a frame that isn't whole yet

    def restart(self) -> None:
        """Forget the text of an attempt that is replaced."""
        self._beginnings.clear()

    def feed(self, piece: bytes) -> bytes:
        """The frames that can be passed on now."""
        if not self._secrets.texts:
            return piece
        if self._is_plain(piece):
            return self._secrets.redact_bytes(piece)
        self._add_frames(piece)
        if len(self._beginnings) > PLACES_MAX or self._frames_bytes > HELD_BYTES_MAX:
            self._redact_beginnings()
        is_undecided = any(len(begun.chars) > SHOWN_CHARS_MAX for begun in self._beginnings.values())
        return b"" if is_undecided else self._release()

    def flush(self) -> bytes:
        """The remaining bytes; call it at the end."""
        if self._rest:
            self._add(b"".join(self._rest))
        return self.flush_frames()

    def flush_frames(self) -> bytes:
        """The whole frames of the rest; call it if the provider broke off."""
        self._rest = []
        return self._release()

    def _is_plain(self, piece: bytes) -> bool:
        """Whether these are whole frames, and no text ends with the beginning of a secret: most tokens."""
        return (
            not (self._beginnings or self._frames or self._rest)
            and piece.endswith(b"\n\n")
            and b"\\" not in piece
            and self._ending.search(piece) is None
        )

    def _add_frames(self, piece: bytes) -> None:
        before = b"".join(self._rest[-_FRAME_END_BYTES_MAX:])[-_FRAME_END_BYTES_MAX + 1 :]
        ends = [found.end() - len(before) for found in _FRAME_END.finditer(before + piece)]
        start = 0
        for end in ends:
            self._add(b"".join((*self._rest, piece[start:end])))
            self._rest, start = [], end
        if start < len(piece):
            self._rest.append(piece[start:])

    def _add(self, data: bytes) -> None:
        frame = _frame_of(data)
        self._frames.append(frame)
        self._frames_bytes += len(data)
        for text in frame.texts:
            self._join(text)

    def _join(self, text: _Text) -> None:
        """Join a text to the earlier ones of each of its places, and cut the secrets that are split."""
        chars = text.raw.replace("\\", "")
        count = self._beginning_chars(chars)
        if not (chars and (count or self._beginnings)):
            return
        alone = text.last(count)
        for place in _places(text.trail):
            begun = self._beginnings.pop(place, None)
            ending = alone if begun is None else self._joined(begun, text, alone)
            if ending.chars:
                self._beginnings[place] = ending

    def _joined(self, begun: _Joined, text: _Text, alone: _Joined) -> _Joined:
        """Cut the secrets that begin in an earlier text; returns the beginning at the end of this one."""
        more = text.first(self._chars_max)
        joined = _Joined(begun.chars + more.chars, [*begun.sources, *more.sources])
        for form in self._forms:
            at = joined.chars.find(form)
            while 0 <= at < len(begun.chars):
                joined.cut(at, at + len(form))
                at = joined.chars.find(form, at + 1)
        count = self._beginning_chars(joined.chars) if len(more.chars) < self._chars_max else 0
        return _Joined(joined.chars[-count:], joined.sources[-count:]) if count else alone

    def _beginning_chars(self, text: str) -> int:
        """How much of the end of a text is the beginning of a secret."""
        if text[-2:] in self._pairs or text[-1:] in self._pairs:
            return max(_beginning_chars(text, form) for form in self._forms)
        return 0

    def _redact_beginnings(self) -> None:
        """Redact the beginnings of secrets, because there is no room to wait for the rest."""
        for place, begun in list(self._beginnings.items()):
            if len(begun.chars) > SHOWN_CHARS_MAX:
                begun.cut(0, len(begun.chars))
                del self._beginnings[place]
        for place in list(self._beginnings)[:-PLACES_MAX]:
            del self._beginnings[place]

    def _release(self) -> bytes:
        frames, self._frames, self._frames_bytes = self._frames, [], 0
        return self._secrets.redact_bytes(b"".join(frame.shown() for frame in frames))


def _forms(secrets: Sequence[str]) -> Sequence[str]:
    """The secrets as they are and as JSON inside a text has them, all without backslashes."""
    forms: dict[str, None] = {}
    for secret in secrets:
        escaped = json.dumps(secret)[1:-1]
        for_html = re.sub("[<>&]", lambda found: f"u{ord(found[0]):04x}", escaped)
        forms |= dict.fromkeys(form.replace("\\", "") for form in (secret, escaped, for_html))
    return [form for form in forms if len(form) >= CHARS_MIN]


def _ending_pattern(forms: Sequence[str]) -> re.Pattern[bytes]:
    """Finds JSON texts without escapes that end with the beginning of a secret."""
    ways: list[bytes] = []
    for form in forms:
        way = b'[^"]*'
        for byte in reversed(form.encode("utf-8", "surrogatepass")[:_ENDING_BYTES]):
            way = re.escape(bytes([byte])) + b"(?:%b)?" % way
        ways.append(way)
    return re.compile(b'(?:%b)"(?!:)' % b"|".join(ways))


def _beginning_chars(text: str, form: str) -> int:
    """How much of the end of a text is the beginning of a form of a secret."""
    at = text.find(form[0], max(0, len(text) - len(form) + 1))
    while at >= 0 and not form.startswith(text[at:]):
        at = text.find(form[0], at + 1)
    return len(text) - at if at >= 0 else 0


def _frame_of(data: bytes) -> _Frame:
    lines = [line[found.end() :] for line in _lines(data) if (found := _DATA.match(line))]
    try:
        value = json.loads(b"\n".join(lines).decode("utf-8", "replace"))
        return _Frame(data, value, list(_texts_in(value, ())))
    except (ValueError, RecursionError):
        return _Frame(data)  # it isn't JSON, and is cleaned as bytes


def _lines(data: bytes) -> list[bytes]:
    return data.removeprefix(_BOM).splitlines()


def _with_json(data: bytes, value: Any) -> bytes:
    """The frame with another value, in a single line."""
    others = [line for line in _lines(data) if line and not _DATA.match(line)]
    return b"\n".join((*others, b"data: " + json.dumps(value, separators=(",", ":")).encode(), b"\n"))


def _texts_in(value: Any, trail: _Trail) -> Iterator[_Text]:
    """Every text in a JSON value."""
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value).items()
    else:
        parts = enumerate(cast("list[Any]", value)) if isinstance(value, list) else ()
    around = cast("Any", value)
    for key, part in parts:
        if isinstance(part, str):
            yield _Text(part, (*trail, (around, key)))
        elif isinstance(part, dict | list):
            yield from _texts_in(part, (*trail, (around, key)))
