"""Files sent to chats, and the text that replaces a rejected file."""

from msgspec import Struct

from holdfast.interfaces.journal import Blobs
from holdfast.values import SentFile

UPLOAD_S = 180.0  # timeout of a request with a file
NAME_CHARS_MAX = 100
MEGABYTE = 1024 * 1024


class FileContent(Struct, frozen=True):
    """A file from the agent, with its bytes."""

    name: str
    media_type: str
    caption: str
    data: bytes


async def file_content(blobs: Blobs, sent: SentFile) -> FileContent | None:
    """Read the file's bytes; None if they were deleted with their session."""
    data = await blobs.blob(sent.blob)
    if data is None:
        return None
    return FileContent(sendable_name(sent.name), sent.media_type, sent.caption, data)


def sendable_name(name: str) -> str:
    """Return a name that is safe in a header and in a chat, with the same extension."""
    kept = "".join("_" if one in '/\\"' or not one.isprintable() else one for one in name)
    return kept[-NAME_CHARS_MAX:].strip(" .") or "file"


def too_big(file: FileContent, platform: str, *, bytes_max: int) -> str:
    """Return the notice for a file that exceeds the platform's limit."""
    size = len(file.data) / MEGABYTE
    why = f"It's {size:.1f} MB, but {platform}'s limit is {bytes_max // MEGABYTE} MB."
    return f"Couldn't send the file {file.name}. {why}"


def rejection_text(file: FileContent, platform: str) -> str:
    """Return the notice for a file that the platform rejected."""
    return f"Couldn't send the file {file.name}: {platform} rejected it."
