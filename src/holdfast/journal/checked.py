"""A stored event as a record, if it still is what was written."""

from zlib import crc32

from holdfast.interfaces.journal import Record, StoreDamaged


def checked_record(session_id: str, seq: int, *, crc: int, body: bytes) -> Record:
    """The record; raises StoreDamaged, with session and seq."""
    if crc32(body) != crc:
        raise StoreDamaged(
            f"integrity check failed at session {session_id} seq {seq}: the stored event is not the one that "
            "was written; restore a backup"
        )
    return Record(session_id, seq, body=body)
