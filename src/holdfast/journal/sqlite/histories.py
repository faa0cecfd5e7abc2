"""Stores the histories that runs are given; a beginning shared by several runs is stored once.

A client that sends the whole conversation with each message would have it stored again each time. So a long
history is cut into pieces at points that depend only on what comes before them. Two histories that begin
alike share their first pieces, and the event itself keeps the rest. Readers get the bytes that were written,
and the event's CRC covers all of them.
"""

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, cast

import apsw

from holdfast.codec import encode_value
from holdfast.events import RunQueued
from holdfast.interfaces.journal import Record

PIECE_BYTES = 16 * 1024
PIECES_SINCE = 6  # the first schema that has them
_FRAME = struct.Struct(
    "<BQI"
)  # a byte that no JSON starts with, the last piece, and the length of what comes before it
_MARK = 1

Row: TypeAlias = tuple[int, int, bytes]


class Histories:
    """Takes histories apart within a transaction, and releases those that were purged."""

    def __init__(self, db: apsw.Connection, sql: Mapping[str, str]) -> None:
        self._db = db
        self._sql = sql

    def stored(self, record: Record, *, session: int) -> bytes:
        """The body to store: unchanged, or without its pieces, which are stored separately."""
        assert isinstance(record.event, RunQueued)
        body = record.body
        messages = [encode_value(message) for message in record.event.history or ()]
        end = b",".join(messages) + b"]}"
        pieces = _pieces(messages) if body.endswith(end) else []
        if not pieces:
            return body
        head = body[: len(body) - len(end)]
        rest = body[len(head) + sum(map(len, pieces)) :]
        last = self._last_of(pieces)
        self._do("put_piece_ref", {"session": session, "seq": record.seq, "piece": last})
        return _FRAME.pack(_MARK, last, len(head)) + head + rest

    def _last_of(self, pieces: Sequence[bytes]) -> int:
        """The last piece of the chain, with one more reference; missing pieces are added."""
        piece, digest = 0, b""
        for body in pieces:
            digest = sha256(digest + body).digest()
            found = self._do("piece", {"hash": digest})
            if not found:
                self._do("refer_to_piece", {"piece": piece})
                found = self._do("insert_piece", {"hash": digest, "prev": piece, "body": body})
            piece = cast("int", found[0][0])
        self._do("refer_to_piece", {"piece": piece})
        return piece

    def purge(self, session: int) -> None:
        """Drop the session's references, and every piece that has none left."""
        for (last,) in self._do("pieces_of_session", {"session": session}):
            piece = cast("int", last)
            while piece:
                ((refs, prev),) = self._do("release_piece", {"piece": piece})
                if refs:
                    break
                self._do("delete_piece", {"piece": piece})
                piece = cast("int", prev)
        self._do("delete_piece_refs", {"session": session})

    def _do(self, name: str, bindings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._db.execute(self._sql[name], bindings).fetchall()


def read_rows(
    db: apsw.Connection, sql: Mapping[str, str], name: str, bindings: Mapping[str, Any]
) -> list[Row]:
    """The rows (seq, crc, body) of a query, with the bodies as they were written."""
    rows = cast("list[Row]", db.execute(sql[name], bindings).fetchall())
    if not any(_is_taken_apart(body) for _, _, body in rows):
        return rows
    db.execute("BEGIN")  # a purge between the two queries would leave bodies without their pieces
    try:
        rows = cast("list[Row]", db.execute(sql[name], bindings).fetchall())
        return [(seq, crc, whole_body(db, sql, body)) for seq, crc, body in rows]
    finally:
        db.execute("COMMIT")


def whole_body(db: apsw.Connection, sql: Mapping[str, str], body: bytes) -> bytes:
    """The body as it was written; if a piece is missing it is left out, so that the CRC check fails."""
    if not _is_taken_apart(body):
        return body
    _, last, head_bytes = _FRAME.unpack_from(body)
    pieces = [cast("bytes", row[0]) for row in db.execute(sql["pieces_up_to"], {"piece": last})]
    begin, end = _FRAME.size, _FRAME.size + head_bytes
    return b"".join([body[begin:end], *pieces, body[end:]])


def _is_taken_apart(body: bytes) -> bool:
    return body[0] == _MARK


def _pieces(messages: Sequence[bytes]) -> list[bytes]:
    """All messages but the last few, joined into pieces that are long enough; the last is never included."""
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    for message in messages[:-1]:
        gathered.append(message)
        size += len(message)
        if size >= PIECE_BYTES:
            pieces.append(b",".join(gathered) + b",")
            gathered, size = [], 0
    return pieces
