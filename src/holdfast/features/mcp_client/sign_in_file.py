"""The stored sign-in of an MCP server: tokens, the registration, and where to renew them.

Each server has its own file, which only its owner can read. The file's name depends on the server's name and
URL, so tokens never go to another URL, even if the configuration changes.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.journal.safe_files import write_whole

BYTES_MAX = 256 * 1024


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """How the server asked for a sign-in: a status and its WWW-Authenticate header."""

    status: int
    header: str = ""


class SignInRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; what the SDK describes is kept as the SDK writes it."""

    url: str = ""
    access_token: str = ""
    refresh_token: str = ""
    scope: str = ""
    expires_at_s: float = 0.0  # 0 if the server does not say
    client: dict[str, object] = {}
    resource: dict[str, object] = {}
    issuer: str = ""
    issuer_metadata: dict[str, object] = {}
    challenge: Challenge | None = None


class SignInFile:
    """The file of one server; reading and writing block."""

    def __init__(self, folder: Path, *, name: str, url: str) -> None:
        digest = hashlib.sha256(f"{name}\0{url}".encode()).hexdigest()
        self.path = folder / f"{digest[:32]}.json"
        self.url = url

    def version(self) -> int:
        """A number that changes when the file does; 0 if there is none."""
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def read(self) -> SignInRecord:
        """Read the stored sign-in; empty if it's missing or unreadable."""
        try:
            with self.path.open("rb") as file:
                record = msgspec.json.decode(file.read(BYTES_MAX + 1), type=SignInRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return SignInRecord(url=self.url)
        return record if record.url == self.url else SignInRecord(url=self.url)

    def change(self, changed: Callable[[SignInRecord], SignInRecord]) -> None:
        """Replace what is kept; a server and a command may do so at the same time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            after = changed(before)
            if after != before:
                write_whole(self.path, msgspec.json.encode(after))
        finally:
            os.close(lock)

    def forget(self) -> bool:
        """Delete it; whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True
