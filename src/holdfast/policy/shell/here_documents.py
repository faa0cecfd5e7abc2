"""Here-documents, read from the source text line by line, as a shell does."""

import re

from msgspec import Struct
from tree_sitter import Node

from holdfast.policy.shell.words import EXPANDED, Word

_QUOTED_START = re.compile(r"<<(-?)[ \t]*(['\"])([A-Za-z_][A-Za-z0-9_]*)\2[^\n]*\n")
_QUOTES = frozenset("'\"\\")


class Document(Struct, frozen=True):
    """The body of a here-document and where it lies in the source."""

    start_byte: int
    end_byte: int
    body: Word


def mask_documents(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text with the bodies of apparent quoted here-documents blanked, and their byte ranges.

    The parser then neither fails on a body nor takes long for it. The caller must check
    that each range really is the body of a here-document: elsewhere the mask would hide commands.
    """
    pieces: list[str] = []
    ranges: list[tuple[int, int]] = []
    done = done_bytes = 0
    while found := _QUOTED_START.search(text, done):
        end = _end_of_body(text, found.end(), delimiter=found[3], tabs=bool(found[1]))
        if end is None:
            break
        before, body = text[done : found.end()], text[found.end() : end]
        start_bytes = done_bytes + len(before.encode())
        done, done_bytes = end, start_bytes + len(body.encode())
        pieces += [before, "\n".join("x" * len(line.encode()) for line in body.split("\n"))]
        ranges.append((start_bytes, done_bytes))
    return "".join([*pieces, text[done:]]), tuple(ranges)


def read_document(source: bytes, node: Node) -> Document | None:
    """The here-document of a heredoc_redirect node, or None if the source disagrees with the tree."""
    parts = {child.type: child for child in node.children}
    if not parts.keys() >= {"heredoc_start", "heredoc_end"}:
        return None
    start, end = parts["heredoc_start"], parts["heredoc_end"]
    raw = source[start.start_byte : start.end_byte].decode(errors="replace")
    delimiter = raw.replace("'", "").replace('"', "").replace("\\", "")
    line_end = source.find(b"\n", start.end_byte)
    if line_end < 0:
        return None
    text = source[line_end + 1 :].decode()
    length = _end_of_body(text, 0, delimiter=delimiter, tabs="<<-" in parts)
    if length is None:
        return None
    body = text[:length]
    end_byte = line_end + 1 + len(body.encode())
    if end_byte + _tabs(text[length:], tabs="<<-" in parts) != end.start_byte:
        return None
    expands = not _QUOTES & set(raw) and any(char in body for char in "$`\\")
    return Document(line_end + 1, end_byte, Word(body, EXPANDED if expands else ""))


def _tabs(line: str, *, tabs: bool) -> int:
    return len(line) - len(line.lstrip("\t")) if tabs else 0


def _end_of_body(text: str, start: int, *, delimiter: str, tabs: bool) -> int | None:
    """Where the line with nothing but the delimiter begins."""
    strip = r"\t*" if tabs else ""
    found = re.compile(rf"^{strip}{re.escape(delimiter)}$", re.MULTILINE).search(text, start)
    return found.start() if found else None
