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
    """The trusted files, each by its path and the digest of its text.

    A file that changes is no longer trusted. The list is kept beside the user's own configuration, where no
    agent may write.
    """

    def __init__(self, folder: Path, name: str = FILE_NAME) -> None:
        self._path = folder / name

    def trusts(self, file: Path, text: str) -> bool:
        """Whether this text at this path is trusted. Raises TrustUnreadable."""
        return self._entries().get(_place(file)) == _digest(text)

    def knows(self, file: Path) -> bool:
        """Whether any text at this path is trusted. Raises TrustUnreadable."""
        entries = self._entries()
        return bool(entries) and _place(file) in entries

    def trust(self, file: Path, text: str) -> None:
        """Trust this text at this path. Raises TrustUnreadable or OSError."""
        self._write({**self._entries(), _place(file): _digest(text)})

    def forget(self, file: Path) -> bool:
        """Trust nothing at this path any more; False if nothing was trusted."""
        entries = dict(self._entries())
        known = entries.pop(_place(file), None) is not None
        if known:
            self._write(entries)
        return known

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


def _place(file: Path) -> str:
    return os.path.realpath(file)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
