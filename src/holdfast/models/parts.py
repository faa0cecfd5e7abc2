"""Attachments in a form that every wire takes: text, an image, a PDF, or a note that it isn't shown."""

import base64
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from holdfast.values import FilePart, ImagePart, Part, TextPart

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
TEXT_TYPES = frozenset(
    {
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/ld+json",
        "application/sql",
        "application/toml",
        "application/x-ndjson",
        "application/x-sh",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "image/svg+xml",
    }
)


class ShownText(msgspec.Struct, frozen=True):
    """Text, never empty."""

    text: str


class ShownImage(msgspec.Struct, frozen=True):
    """An image of a type that models take."""

    media_type: str
    base64: str


class ShownPdf(msgspec.Struct, frozen=True):
    """A PDF."""

    name: str
    base64: str


Shown = ShownText | ShownImage | ShownPdf


def shown_contents(text: str, parts: Iterable[Part], *, blobs: Mapping[str, bytes]) -> list[Shown]:
    """The contents of a message, in order; blank text is left out."""
    first = [ShownText(text)] if text.strip() else []
    return [*first, *_shown_parts(parts, blobs)]


def is_picture_or_pdf(media_type: str) -> bool:
    """Whether every wire takes it as it is."""
    return is_image(media_type) or bare_type(media_type) == "application/pdf"


def is_image(media_type: str) -> bool:
    """Whether models that see images take it."""
    return bare_type(media_type) in IMAGE_TYPES


def bare_type(media_type: str) -> str:
    """The media type without parameters."""
    return media_type.partition(";")[0].strip().lower()


def text_of(media_type: str, data: bytes) -> str | None:
    """The bytes as text, if they are text: browsers don't know the type of most source files."""
    if b"\0" in data:
        return None
    kind = bare_type(media_type)
    is_known = kind.startswith("text/") or kind in TEXT_TYPES
    try:
        return data.decode(errors="replace" if is_known else "strict")
    except UnicodeDecodeError:
        return None


def data_url(media_type: str, encoded: str) -> str:
    """The form in which OpenAI's wires take data."""
    return f"data:{media_type};base64,{encoded}"


def _shown_parts(parts: Iterable[Part], blobs: Mapping[str, bytes]) -> Iterator[Shown]:
    for part in parts:
        if isinstance(part, TextPart):
            if part.text.strip():
                yield ShownText(part.text)
        elif (data := blobs.get(part.blob)) is None:
            yield ShownText(f"[{part.name or part.media_type}: no longer available]")
        else:
            yield _shown_blob(part, data)


def _shown_blob(part: ImagePart | FilePart, data: bytes) -> Shown:
    media_type = bare_type(part.media_type)
    if media_type in IMAGE_TYPES:
        return ShownImage(media_type, base64.b64encode(data).decode())
    if media_type == "application/pdf":
        return ShownPdf(part.name or "document.pdf", base64.b64encode(data).decode())
    if (text := text_of(media_type, data)) is not None:
        return ShownText(f"File {part.name or media_type}:\n{text}")
    return ShownText(f"[{part.name or 'file'}: {media_type}, {len(data)} bytes, not shown]")
