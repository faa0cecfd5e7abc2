"""The tokens of a sign-in, in a separate file or in an encrypted note of a shared store.

Only one renewal of a sign-in is in progress at a time: a file lock keeps out other programs of this data
directory, and the claim of the sign-in's log other servers. New tokens are first written to a second file, so
that a crash before they are stored doesn't lose them: an issuer accepts each refresh token once.
"""

import asyncio
import fcntl
import hmac
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast import events as e
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import Fence, IfSessionNew, JournalError, OwnedElsewhere, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.safe_files import sync_folder, write_whole
from holdfast.journal.shared_notes import cluster_secret

FOLDER = "sign-ins"
SOURCE = "credential"  # of the logs
BYTES_MAX = 256 * 1024
ANSWER_S = 15.0  # for one request to an issuer, with its connection
LOCK_S = 20.0  # how long to wait for another program or server
LOOK_S = 0.1  # between looks at a lock that another program or server holds
NONCE_BYTES = 12
SHORT_MS, MARGIN_MS_MAX = 30_000, 3_600_000
UNKNOWN_MS = 3_600_000  # the life of a token whose issuer doesn't say
LIFE_MS_MAX = 400 * 86_400_000

T = TypeVar("T")


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of one sign-in. Times are by our own clock, so that of the issuer doesn't matter."""

    access_token: str = ""  # empty: to be renewed before its first use
    refresh_token: str = ""
    account: str = ""
    base_url: str = ""  # where the issuer wants the requests; empty: at the target's own
    issued_ms: int = 0
    expires_ms: int = 0

    def __repr__(self) -> str:
        """Keep the tokens out of logs and tracebacks."""
        return f"Tokens(expires_ms={self.expires_ms})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens themselves."""
        return tuple(filter(None, (self.access_token, self.refresh_token)))

    @property
    def mark(self) -> str:
        """A digest that tells these tokens from others of the sign-in."""
        return sha256(f"{self.access_token}\0{self.refresh_token}".encode()).hexdigest()

    def left_ms(self, now_ms: int) -> int:
        """How long the access token is valid; if our clock was set back, at most its whole life."""
        if not self.access_token:
            return 0
        return min(self.expires_ms - now_ms, self.expires_ms - self.issued_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether to renew it: a fifth of its life is left, at most an hour."""
        life_ms = self.expires_ms - self.issued_ms
        return self.left_ms(now_ms) <= min(MARGIN_MS_MAX, max(min(SHORT_MS, life_ms // 2), life_ms // 5))


def expiry_ms(now_ms: int, life_s: float | None) -> int:
    """When a token ends that lives so long from now on."""
    life_ms = int(1000 * life_s) if life_s is not None else 0
    return now_ms + (life_ms if 0 < life_ms <= LIFE_MS_MAX else UNKNOWN_MS)


class _Staged(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that aren't stored yet, and what they replace; `over` is empty if they replace any others."""

    tokens: Tokens
    over: str = ""


class Vault:
    """The tokens of one sign-in. Without a store, this process only uses the file."""

    def __init__(
        self, folder: Path, name: str, store: Store | None, *, is_shared: bool, lock_s: float = LOCK_S
    ) -> None:
        self.name = name
        self.lock_s = lock_s
        self.log_id = f"crd_{name}"
        self._folder = folder
        self._file = folder / f"{name}.json"
        self._next = folder / f"{name}.next.json"
        self._lock = folder / f"{name}.lock"
        self._store = store
        self._is_shared = is_shared

    async def read(self) -> Tokens | None:
        """The stored tokens, if any. Raises JournalError and OSError."""
        if self._is_shared:
            assert self._store is not None, "servers share it"
            raw = await self._store.note(self._note)
            return None if raw is None else self._opened(raw, await cluster_secret(self._store))
        return await asyncio.to_thread(_read, self._file, Tokens)

    async def ready(self) -> Tokens | None:
        """The stored tokens, if any; None while newer ones aren't stored yet."""
        if self._is_shared:
            return None if await asyncio.to_thread(self._next.exists) else await self.read()
        return await asyncio.to_thread(lambda: None if self._next.exists() else _read(self._file, Tokens))

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[Fence | None]:
        """Keep all others from changing the tokens; waits for them, until it raises TimeoutError."""
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.lock_s):
                stack.callback(os.close, await self._locked())
                fence = await self._claimed()
            if fence is not None and self._store is not None:
                stack.push_async_callback(self._store.release, self.log_id, fence)
            yield fence

    async def recover(self) -> Tokens | None:
        """Store what a crash left, if nothing else has been stored since; returns what is stored then.

        Needs `exclusive`, like all methods below.
        """
        stored = await self.read()
        staged = await asyncio.to_thread(_read, self._next, _Staged)
        if staged is None:
            return stored
        if not staged.over or (stored is not None and stored.mark == staged.over):
            await self.store(staged.tokens, over=stored)
            return staged.tokens
        await self._unstage()
        return stored

    async def stage(self, tokens: Tokens, *, over: Tokens | None = None) -> None:
        """Write new tokens to this computer's disk, before they are stored."""
        staged = _Staged(tokens=tokens, over="" if over is None else over.mark)
        await asyncio.to_thread(_write, self._next, staged)

    async def store(self, tokens: Tokens, *, over: Tokens | None) -> bool:
        """Replace the stored tokens, if they are still `over`; return whether they were. Unstages them."""
        is_stored = True
        if self._is_shared:
            is_stored = await self._swap_note(tokens, over=over)
        else:
            await asyncio.to_thread(_write, self._file, tokens)
        await self._unstage()
        return is_stored

    async def forget(self) -> None:
        """Remove the tokens."""
        if self._is_shared:
            assert self._store is not None, "servers share it"
            await self._store.drop_note(self._note)
        await asyncio.to_thread(self._file.unlink, missing_ok=True)
        await self._unstage()

    async def record(self, event: e.Event, fence: Fence | None) -> None:
        """Append an event to the sign-in's log, if there is a store."""
        if self._store is None or fence is None:
            return
        await self._store.append_run(self.log_id, [event], fence=fence)

    @property
    def _note(self) -> str:
        return f"sign-in/{self.name}"

    async def _unstage(self) -> None:
        await asyncio.to_thread(self._next.unlink, missing_ok=True)

    async def _swap_note(self, tokens: Tokens, *, over: Tokens | None) -> bool:
        assert self._store is not None, "servers share it"
        secret = await cluster_secret(self._store)
        raw = await self._store.note(self._note)
        stored = None if raw is None else self._opened(raw, secret)
        if stored != over:
            return False
        return await self._store.swap_note(self._note, self._sealed(tokens, secret), expected=raw)

    def _sealed(self, tokens: Tokens, secret: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + _cipher(secret).encrypt(nonce, msgspec.json.encode(tokens), self.name.encode())

    def _opened(self, raw: bytes, secret: bytes) -> Tokens | None:
        from cryptography.exceptions import InvalidTag

        try:
            data = _cipher(secret).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], self.name.encode())
            return msgspec.json.decode(data, type=Tokens)
        except (InvalidTag, ValueError, msgspec.DecodeError):
            return None  # of another cluster secret: sign in again

    async def _locked(self) -> int:
        """The file's lock, as an open descriptor."""
        lock = await asyncio.to_thread(self._open_lock)
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(LOOK_S)
                else:
                    return lock
        except BaseException:
            os.close(lock)
            raise

    def _open_lock(self) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    async def _claimed(self) -> Fence | None:
        if self._store is None:
            return None
        while True:
            try:
                if not await self._store.last_seq(self.log_id):  # a log that doesn't exist can't be owned
                    created = e.SessionCreated(at_ms=SystemClock().now_ms(), epoch=new_epoch(), source=SOURCE)
                    await self._store.append(self.log_id, [created], when=[IfSessionNew()])
                return await self._store.claim(self.log_id)
            except OwnedElsewhere:
                await asyncio.sleep(LOOK_S)
            except JournalError:
                if self._is_shared:
                    raise
                return None  # the file's lock is enough


def _cipher(secret: bytes):  # noqa: ANN202  # imported by servers that share a store alone
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(secret, b"holdfast sign-ins", "sha256"))


def _read(path: Path, kind: type[T]) -> T | None:
    """The file's content; None if it's missing or unreadable."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(BYTES_MAX + 1), type=kind)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _write(path: Path, content: Tokens | _Staged) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(content))
    sync_folder(path.parent)
