"""Keys that are added and revoked while the server runs: stored as hashes in notes, effective at once."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from holdfast.api.operation import SCOPES, Scope
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Notes

KEYS_MAX = 200
NAME_CHARS_MAX = 64
_PREFIX = "api_key:"


class AddedKey(msgspec.Struct, frozen=True):
    """A key that was added; its secret was shown once and isn't stored."""

    name: str
    created_ms: int
    digest: str
    scopes: tuple[str, ...] = SCOPES  # a key from before there were scopes may do everything


class KeyExists(Exception):
    """A key with this name already exists."""


def digest_of(secret: str) -> bytes:
    """The hash that is stored instead of a secret."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def is_key_name(name: str) -> bool:
    """Whether this can be a key's name, in a list and in a URL."""
    return (
        0 < len(name) <= NAME_CHARS_MAX
        and name.isprintable()
        and name == name.strip()
        and name not in {".", ".."}
        and not set(name) & {"/", "\\"}
    )


class AddedKeys:
    """The added keys by name; commands use it too while no server runs."""

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self._keys: dict[str, AddedKey] = {}
        self._revoked: set[str] = set()  # revoked keys whose notes are still on disk
        self._adding: set[str] = set()  # keys whose notes aren't on disk yet
        self._changes = 0

    async def load(self) -> None:
        """Load the keys of an earlier process, or what other nodes have changed."""
        found: Mapping[str, bytes] = {}
        changes = -1
        while changes != self._changes:
            # Changes made here while the notes are read are newer.
            changes = self._changes
            found = await self._notes.notes(_PREFIX)
        decoded = (msgspec.json.decode(raw, type=AddedKey) for raw in found.values())
        stored = {key.name: key for key in decoded}
        adding = {name: key for name, key in self._keys.items() if name in self._adding}
        self._keys = {name: key for name, key in stored.items() if name not in self._revoked} | adding

    def list(self) -> list[AddedKey]:
        """All keys, oldest first."""
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.name))

    def digests(self) -> Iterator[tuple[str, bytes]]:
        """The hash of each key's secret, by name."""
        return ((key.name, bytes.fromhex(key.digest)) for key in self._keys.values())

    def scopes_of(self, name: str) -> frozenset[Scope]:
        """Return the scopes of the key with this name. Unknown scopes are ignored."""
        key = self._keys.get(name)
        return frozenset(one for one in SCOPES if key is not None and one in key.scopes)

    async def add(self, name: str, scopes: Sequence[Scope] = SCOPES) -> str:
        """Add a key and return its secret, which works once it's on disk; raises KeyExists."""
        assert is_key_name(name), "names are checked where they come in"
        assert scopes, "a key that may do nothing is a mistake"
        if name in self._keys:
            raise KeyExists(name)
        secret = f"hf-{secrets.token_urlsafe(32)}"
        kept = tuple(one for one in SCOPES if one in scopes)
        key = AddedKey(name, self._clock.now_ms(), digest_of(secret).hex(), kept)
        self._keys[name] = key  # before the wait, so that only one of two requests gets the name
        self._adding.add(name)
        try:
            if name in self._revoked:
                await self._notes.drop_note(_PREFIX + name)
            if not await self._notes.swap_note(_PREFIX + name, msgspec.json.encode(key), expected=None):
                raise KeyExists(name)  # another node was faster
        except BaseException:
            if self._keys.get(name) is key:
                del self._keys[name]
            raise
        finally:
            self._adding.discard(name)
            self._changes += 1
        if name in self._keys:
            self._revoked.discard(name)
        else:
            # Revoked meanwhile: the note may have been written after its removal.
            self._revoked.add(name)
            await self.revoke(name)
        return secret

    async def revoke(self, name: str) -> bool:
        """Revoke the key for good; False if there's none with this name."""
        if self._keys.pop(name, None) is None and name not in self._revoked:
            return False
        # If the store refuses, this raises, and the next try removes the note.
        self._changes += 1
        self._revoked.add(name)
        await self._notes.drop_note(_PREFIX + name)
        self._revoked.discard(name)
        return True
