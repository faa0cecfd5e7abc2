"""Keys that are added and revoked while the server runs: stored as hashes in notes, effective at once."""

import secrets
from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from holdfast.api.scopes import SCOPES, Scope
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

    async def load(self) -> None:
        """Load the keys of an earlier process."""
        found = (await self._notes.notes(_PREFIX)).values()
        self._keys = {key.name: key for key in (msgspec.json.decode(raw, type=AddedKey) for raw in found)}

    def list(self) -> list[AddedKey]:
        """All keys, oldest first."""
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.name))

    def digests(self) -> Iterator[tuple[str, bytes]]:
        """The hash of each key's secret, by name."""
        return ((key.name, bytes.fromhex(key.digest)) for key in self._keys.values())

    def scopes_of(self, name: str) -> frozenset[Scope]:
        """What the key of this name may do; scopes that this version doesn't know are ignored."""
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
        try:
            await self._notes.put_note(_PREFIX + name, msgspec.json.encode(key))
        except BaseException:
            if self._keys.get(name) is key:
                del self._keys[name]
            raise
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
        self._revoked.add(name)
        await self._notes.drop_note(_PREFIX + name)
        self._revoked.discard(name)
        return True
