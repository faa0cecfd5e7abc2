"""Files that a person attaches to the next message."""

import asyncio
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.regular_files import TooLarge, read_regular
from holdfast.values import FilePart, ImagePart

if TYPE_CHECKING:
    from holdfast.client import Client

FILE_BYTES_MAX = 25 * 1024 * 1024
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class NotAttached(Exception):
    """The file can't be attached; the message says why."""


async def attach(client: "Client", name: str, workspace: Path) -> ImagePart | FilePart:
    """Upload a file. Raises NotAttached or ClientError."""
    path, data = await asyncio.to_thread(_read, name, workspace)
    blob = await client.upload(data)
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if media_type in _IMAGES:
        return ImagePart(blob=blob, media_type=media_type, name=path.name)
    return FilePart(blob=blob, media_type=media_type, name=path.name)


def _read(name: str, workspace: Path) -> tuple[Path, bytes]:
    """The file, in the workspace or where the chat was started."""
    given = Path(name.strip("'\"")).expanduser()
    found = [path for path in (workspace / given, given.absolute()) if path.is_file()]
    if not found:
        raise NotAttached(f"File not found: {given}.")
    path = found[0].resolve()
    if is_secret(str(path)):
        raise NotAttached(f"{given} might contain secrets, so it isn't sent to a model.")
    try:
        data = read_regular(path, bytes_max=FILE_BYTES_MAX)
    except TooLarge as error:
        raise NotAttached(f"{given} is larger than {FILE_BYTES_MAX // 1024**2} MB.") from error
    except OSError as error:
        raise NotAttached(f"{given}: {error.strerror}") from error
    if not data:
        raise NotAttached(f"{given} is empty.")
    return path, data
