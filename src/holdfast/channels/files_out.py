"""A file on its way to a chat: its bytes, and the words that take its place if a platform doesn't take it."""

from dataclasses import dataclass

from holdfast.interfaces.journal import Blobs
from holdfast.values import SentFile

UPLOAD_S = 180.0  # how long an answer to a request with a file may take
NAME_CHARS_MAX = 100
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file that the agent sends, with its bytes."""

    name: str
    media_type: str
    caption: str
    data: bytes


async def file_content(blobs: Blobs, sent: SentFile) -> FileContent | None:
    """The file with its bytes; None if they are gone with their session."""
    data = await blobs.blob(sent.blob)
    if data is None:
        return None
    return FileContent(sendable_name(sent.name), sent.media_type, sent.caption, data)


def sendable_name(name: str) -> str:
    """A name that can stand in a header and in a chat; its ending is kept, since that says what it is."""
    kept = "".join("_" if one in '/\\"' or not one.isprintable() else one for one in name)
    return kept[-NAME_CHARS_MAX:].strip(" .") or "file"


def too_big(file: FileContent, platform: str, *, bytes_max: int) -> str:
    """What to say in place of a file that is too big for the platform."""
    size = len(file.data) / MEGABYTE
    why = f"It is {size:.1f} MB, and {platform} takes files of up to {bytes_max // MEGABYTE} MB."
    return f"I couldn't send you the file {file.name}. {why}"


def not_taken(file: FileContent, platform: str) -> str:
    """What to say in place of a file that the platform refused."""
    return f"I couldn't send you the file {file.name}. {platform} didn't take it."
