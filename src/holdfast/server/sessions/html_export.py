"""A session as an HTML page that needs nothing else: no script, no network, its images inside."""

from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from html import escape

import msgspec
from markdown_it import MarkdownIt

from holdfast.folds.entries import AskCard, Ending, Entry, Person, Text, Thinking, ToolCard
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.tools.offload import offload
from holdfast.values import ImagePart, Part, TextPart

ENTRIES_AT_ONCE = 64
IMAGE_BYTES_MAX = 5 * 1024 * 1024  # of one image, and
IMAGES_BYTES_MAX = 50 * 1024 * 1024  # of all
TITLE_CHARS_MAX = 80
IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_CSS = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
.user { background: #8882; border-radius: .75rem; padding: .25rem 1rem; margin: 1.5rem 0; }
.user p, pre { white-space: pre-wrap; }
pre { background: #8881; border-radius: .5rem; padding: .75rem; font-size: .85rem; }
details { color: #888; margin: .75rem 0; } summary { cursor: pointer; }
img { max-width: 100%; }
table { border-collapse: collapse; } td, th { border: 1px solid #8886; padding: .25rem .5rem; }
.note { color: #888; font-style: italic; }
"""
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>{css}</style></head><body>
<h1>{title}</h1><p class="note">{day}</p>
"""

ReadBlob = Callable[[str], Awaitable[bytes | None]]


class _Markdown(str):
    """Text of the model, which a thread renders."""

    __slots__ = ()


async def html_in_pieces(state: Session, seen: Transcript, read_blob: ReadBlob) -> AsyncGenerator[bytes]:
    """The conversation as a page, some entries at a time."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    entries, left = list(seen.entries), IMAGES_BYTES_MAX
    day = datetime.fromtimestamp(state.created_ms / 1000, UTC).strftime("%d %B %Y")
    yield _HEAD.format(title=escape(state.title or _first_line(entries)), css=_CSS, day=day).encode()
    for at in range(0, len(entries), ENTRIES_AT_ONCE):
        pieces: list[str] = []
        for entry in entries[at : at + ENTRIES_AT_ONCE]:
            pieces += _pieces(entry)
            for part in entry.message.parts if isinstance(entry, Person) else ():
                image = await _image(part, read_blob, bytes_max=min(left, IMAGE_BYTES_MAX))
                left -= len(image)
                pieces.append(image)
        yield await offload(partial(_rendered, markdown, pieces))
    yield b"</body></html>\n"


def _first_line(entries: Sequence[Entry]) -> str:
    said = (entry.message.text.strip() for entry in entries if isinstance(entry, Person))
    return next((text.splitlines()[0][:TITLE_CHARS_MAX] for text in said if text), "Session")


def _rendered(markdown: MarkdownIt, pieces: Sequence[str]) -> bytes:
    shown = (markdown.render(piece) if isinstance(piece, _Markdown) else piece for piece in pieces)
    return "\n".join(shown).encode() + b"\n"


async def _image(part: Part, read_blob: ReadBlob, *, bytes_max: int) -> str:
    """The image, or the name of another file."""
    if isinstance(part, TextPart):
        return ""
    name = escape(part.name or "attachment")
    if isinstance(part, ImagePart) and part.media_type in IMAGE_TYPES:
        data = await read_blob(part.blob)
        if data is not None and len(data) <= bytes_max:
            return f'<img alt="{name}" src="data:{part.media_type};base64,{b64encode(data).decode()}">'
    return f'<p class="note">{name}</p>'


def _pieces(entry: Entry) -> Iterator[str]:
    match entry:
        case Person():
            yield f'<div class="user"><p>{escape(entry.message.text)}</p></div>'
        case Text() if entry.text.strip():
            yield _Markdown(entry.text)
        case Thinking() if entry.text.strip():
            yield f"<details><summary>Reasoning</summary><pre>{escape(entry.text)}</pre></details>"
        case ToolCard():
            args = escape(entry.bad_args or msgspec.json.format(msgspec.json.encode(entry.args)).decode())
            state = entry.ending or entry.state
            name = escape(entry.name if state == "finished" else f"{entry.name} ({state})")
            yield f"<details><summary>{name}</summary><pre>{args}</pre>"
            yield f"<pre>{escape(entry.result)}</pre></details>"
        case AskCard():
            verdict = escape(entry.answer or entry.state)
            yield f'<p class="note">{escape(entry.headline or entry.text)}: {verdict}</p>'
        case Ending() if entry.outcome != "completed":
            yield f'<p class="note">{escape(entry.words)}</p>'
        case _:
            pass
