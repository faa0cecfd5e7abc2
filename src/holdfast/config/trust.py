"""The configuration files of working directories that the user trusts."""

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

FILE_NAME = "trusted.json"
BYTES_MAX = 1_048_576


class TrustUnreadable(Exception):
    """The list of trusted files can't be read; the text names it."""


class TrustedFiles:
    """The trusted files, each by its place in a workspace and the digest of its text.

    A file that changes is no longer trusted. Neither is one whose path in the workspace becomes a link: a
    repository can contain links, so they lead to no other entry and hide none. The list is kept beside the
    user's own configuration, where no agent may write.
    """

    def __init__(self, folder: Path, name: str = FILE_NAME, *, inside: tuple[str, ...] = ()) -> None:
        self._path = folder / name
        self._inside = inside  # the folders of a workspace that such files are in; none: the workspace itself

    def trusts(self, file: Path, text: str) -> bool:
        """Whether this text at this path is trusted. Raises TrustUnreadable."""
        place = self._place(file)
        return self._entries().get(place) == _digest(text, place)

    def knows(self, file: Path) -> bool:
        """Whether any text at this path is trusted. Raises TrustUnreadable."""
        entries = self._entries()
        return bool(entries) and self._place(file) in entries

    def trust(self, file: Path, text: str) -> None:
        """Trust this text at this path. Raises TrustUnreadable or OSError."""
        place = self._place(file)
        self._write({**self._entries(), place: _digest(text, place)})

    def forget(self, file: Path) -> bool:
        """Trust nothing at this path any more; False if nothing was trusted."""
        entries = dict(self._entries())
        known = entries.pop(self._place(file), None) is not None
        if known:
            self._write(entries)
        return known

    def _place(self, file: Path) -> str:
        """The path of the file, with links resolved up to the workspace only."""
        path = str(file.absolute())
        end = max((path.rfind(f"/{folder}/") for folder in self._inside), default=-1)
        workspace, inside = (path[:end], path[end + 1 :]) if end >= 0 else os.path.split(path)
        return os.path.join(os.path.realpath(workspace or "/"), os.path.normpath(inside))  # noqa: PTH118

    def _entries(self) -> Mapping[str, str]:
        try:
            with self._path.open("rb") as file:
                body = file.read(BYTES_MAX + 1)
            return msgspec.json.decode(body, type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a JSON object of strings"
            raise TrustUnreadable(f"can't read {self._path}: {why}") from error

    def _write(self, entries: Mapping[str, str]) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        beside.touch(mode=0o600, exist_ok=False)
        try:
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(entries, order="sorted")))
            beside.replace(self._path)
        finally:
            beside.unlink(missing_ok=True)


def _digest(text: str, place: str) -> str:
    """The digest of the text, and of where a link leads if the place is or was trusted as one."""
    real = os.path.realpath(place)
    whole = text.encode() if real == place else f"{text}\0{real}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(whole).hexdigest()
