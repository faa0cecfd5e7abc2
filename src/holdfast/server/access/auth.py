"""Authentication: API keys, and browsers that signed in with one or with a sign-in link.

Links to sign in that work at any of the servers that share a store, once.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from holdfast.api.operation import SCOPES, Scope
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Notes
from holdfast.server.access.keys import AddedKeys, digest_of
from holdfast.server.options import ApiKey

LINK_MS = 10 * 60_000
_USED = "sign_in_link:"
_TOKEN_CHARS_MAX = 1_000


class _SharedLink(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token."""

    key: str
    until_ms: int
    nonce: str


class SharedLinks:
    """Makes tokens that say whom they sign in, under a key of all servers; a note says what was used."""

    def __init__(self, notes: Notes, clock: Clock, key: bytes) -> None:
        self._notes = notes
        self._clock = clock
        self._key = key

    def new(self, key_name: str) -> str:
        """A token that signs in once, within ten minutes."""
        link = _SharedLink(key_name, self._clock.now_ms() + LINK_MS, secrets.token_hex(16))
        said = urlsafe_b64encode(msgspec.json.encode(link)).decode().rstrip("=")
        return f"{said}.{self._mac(said)}"

    async def used(self, token: str) -> str:
        """The name of the key that it signs in with, the first time; empty if it is not, or no longer, valid.

        A store that can't take writes raises, and the token stays valid.
        """
        said, _, mac = token[:_TOKEN_CHARS_MAX].partition(".")
        if not hmac.compare_digest(self._mac(said).encode(), mac.encode("utf-8", "replace")):
            return ""
        link = msgspec.json.decode(urlsafe_b64decode(said + "=" * (-len(said) % 4)), type=_SharedLink)
        now_ms = self._clock.now_ms()
        if not now_ms < link.until_ms <= now_ms + LINK_MS:
            return ""
        note, until = _USED + digest_of(token).hex(), str(link.until_ms).encode()
        if not await self._notes.swap_note(note, until, expected=None):
            return ""
        await self._forget_old(now_ms)
        return link.key

    async def _forget_old(self, now_ms: int) -> None:
        for note, until in (await self._notes.notes(_USED)).items():
            if int(until) < now_ms:
                await self._notes.drop_note(note)

    def _mac(self, said: str) -> str:
        return hmac.new(self._key, said.encode("utf-8", "replace"), sha256).hexdigest()


OPEN = "open"  # everyone's name on a server without keys
_COOKIE = "holdfast_sign_in"
_PREFIX = "sign_in:"
SIGN_INS_MAX = 1000
SIGNED_IN_FOR_MS = 30 * 86_400_000
LINKS_MAX = 100
LEARNED_PER_S = 50


class _SignIn(msgspec.Struct, frozen=True):
    """A browser that signed in; the note's key is the hash of its cookie."""

    key: str
    expires_at_ms: int
    secret: str = ""  # distinguishes the key's secret from a later one with the same name
    page: str = ""  # the hash of the page's secret; without it the cookie is useless


class BrowserSecrets(Struct, frozen=True):
    """A browser's credentials: a cookie, and a secret that only pages of this origin can read.

    Browsers send a cookie to every port of the host, so every server on that host sees it.
    """

    name: str
    cookie: str
    page: str

    def __repr__(self) -> str:
        """The secrets stay out of logs and tracebacks."""
        return f"BrowserSecrets({self.name!r})"


class _Link(Struct, frozen=True):
    """A sign-in link that hasn't been used yet."""

    key: str
    expires_at_ms: int


class KeyRing:
    """The keys that open this server, configured and added; None configured opens it to everyone."""

    def __init__(self, keys: Iterable[ApiKey] | None, added: AddedKeys) -> None:
        self.added = added
        self._configured: list[tuple[str, bytes]] | None = None
        self.made: frozenset[str] = frozenset()  # those that aren't in the configuration
        self.replace(keys)

    def replace(self, keys: Iterable[ApiKey] | None) -> None:
        """Use other keys from now on; a revoked key stops working, and so do its sign-ins."""
        given = None if keys is None else list(keys)
        self._configured = None if given is None else [(key.name, digest_of(key.secret)) for key in given]
        self.made = frozenset(key.name for key in given or () if key.source == "made")

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._configured is None

    @property
    def configured(self) -> list[str]:
        """The names of the keys from the configuration, which the server can't revoke."""
        return [name for name, _ in self._configured or ()]

    def holds(self, name: str, secret: str) -> bool:
        """Whether the key with this name is still valid and still has this mark."""
        return self.is_open or any(known == name and _mark(it) == secret for known, it in self._all())

    def mark_of(self, name: str) -> str:
        """A mark that changes with the key's secret; empty if there's no such key."""
        return next((_mark(digest) for known, digest in self._all() if known == name), "")

    def scopes_of(self, name: str) -> frozenset[Scope]:
        """Return the scopes of the key with this name. Configured keys have all."""
        if self.is_open or name in self.configured:
            return frozenset(SCOPES)
        return self.added.scopes_of(name)

    def name_of(self, secret: str) -> str | None:
        """The name of this key; compares every key in constant time."""
        if not secret:
            return None  # an empty key never matches, even if one was stored by mistake
        given, found = digest_of(secret), None
        for name, known in self._all():
            if hmac.compare_digest(given, known):
                found = name
        return found

    def _all(self) -> Iterator[tuple[str, bytes]]:
        if self._configured is not None:
            yield from self._configured
            yield from self.added.digests()


def _mark(digest: bytes) -> str:
    """A hash of the hash, because it's stored with sign-ins, where the key's own hash doesn't belong."""
    return digest_of(digest.hex()).hex()[:32]


class SignIns:
    """Signed-in browsers, stored as notes so that sign-ins survive a restart."""

    def __init__(self, notes: Notes, clock: Clock, keys: KeyRing) -> None:
        self._notes = notes
        self._clock = clock
        self._keys = keys
        self._known: dict[bytes, _SignIn] = {}
        self._links: dict[bytes, _Link] = {}
        self.shared_links: SharedLinks | None = None  # links that other servers know, too
        self._changes = 0
        self._learn_from_s = 0.0

    async def load(self) -> None:
        """Load the sign-ins of an earlier process, or what other nodes have changed."""
        found: Mapping[str, bytes] = {}
        changes = -1
        while changes != self._changes:
            # Changes made here while the notes are read are newer.
            changes = self._changes
            found = await self._notes.notes(_PREFIX)
        self._known = {
            bytes.fromhex(key.removeprefix(_PREFIX)): msgspec.json.decode(raw, type=_SignIn)
            for key, raw in found.items()
        }

    def new_link(self, key_name: str) -> str:
        """A token for a link that signs in once with a key's rights, within ten minutes."""
        if self.shared_links is not None:
            return self.shared_links.new(key_name)
        token = secrets.token_urlsafe(32)
        self._links[digest_of(token)] = _Link(key_name, self._clock.now_ms() + LINK_MS)
        while len(self._links) > LINKS_MAX:
            del self._links[next(iter(self._links))]
        return token

    async def sign_in_by_link(self, token: str) -> BrowserSecrets | None:
        """Sign in if the link is valid; it stays valid if the store can't take writes right now."""
        if self.shared_links is not None:
            name = await self.shared_links.used(token)
            return await self.sign_in(name) if name and self._keys.mark_of(name) else None
        digest = digest_of(token)
        link = self._links.pop(digest, None)
        if link is None or link.expires_at_ms <= self._clock.now_ms() or not self._keys.mark_of(link.key):
            return None
        try:
            return await self.sign_in(link.key)
        except BaseException:
            self._links[digest] = link
            raise

    async def sign_in(self, key_name: str) -> BrowserSecrets:
        """Sign a browser in; the sign-in is on disk before the browser gets its secrets."""
        made = BrowserSecrets(key_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        expires_at_ms = self._clock.now_ms() + SIGNED_IN_FOR_MS
        page = digest_of(made.page).hex()
        sign_in = _SignIn(key_name, expires_at_ms, self._keys.mark_of(key_name), page)
        name = digest_of(made.cookie)
        await self._notes.put_note(_PREFIX + name.hex(), msgspec.json.encode(sign_in))
        self._known[name] = sign_in
        self._changes += 1
        await self._forget_old()
        return made

    async def learn(self, cookie: str) -> None:
        """Look up a sign-in that another server just created; notifications take up to a second."""
        name, now_s = digest_of(cookie), self._clock.monotonic_s()
        if self.shared_links is None or name in self._known or now_s < self._learn_from_s:
            return
        # Anyone can send cookies, so lookups in the store are rate-limited.
        self._learn_from_s = max(self._learn_from_s, now_s - 1.0) + 1.0 / LEARNED_PER_S
        found = await self._notes.note(_PREFIX + name.hex())
        if found is not None and name not in self._known:
            self._known[name] = msgspec.json.decode(found, type=_SignIn)
            self._changes += 1

    async def sign_out(self, cookie: str) -> None:
        """Sign out: the cookie stops working."""
        await self._forget(digest_of(cookie))

    def name_of(self, cookie: str, page: str) -> str | None:
        """The key name of a valid cookie that comes with its page's secret."""
        known = self._good(cookie)
        if known is None or not known.page:
            return None
        return known.key if hmac.compare_digest(known.page, digest_of(page).hex()) else None

    def owner_of(self, cookie: str) -> str | None:
        """The key name of a valid cookie; call it only after another check: a cookie alone isn't enough."""
        known = self._good(cookie)
        return None if known is None or not known.page else known.key

    def _good(self, cookie: str) -> _SignIn | None:
        """Looks up only the cookie's hash, so timing reveals nothing about its bytes."""
        known = self._known.get(digest_of(cookie))
        if known is None or known.expires_at_ms <= self._clock.now_ms():
            return None
        return known if self._keys.holds(known.key, known.secret) else None

    async def _forget_old(self) -> None:
        now_ms = self._clock.now_ms()
        for name in [name for name, one in self._known.items() if one.expires_at_ms <= now_ms]:
            await self._forget(name)
        while len(self._known) > SIGN_INS_MAX:
            await self._forget(min(self._known, key=lambda name: self._known[name].expires_at_ms))

    async def _forget(self, name: bytes) -> None:
        if name in self._known:
            # On disk first: if the store refuses, a second try must still find it.
            await self._notes.drop_note(_PREFIX + name.hex())
            self._known.pop(name, None)
            self._changes += 1


def cookie_name(host: str) -> str:
    """The cookie's name at this address; two servers on one host must not share a cookie."""
    port = host.rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isascii() and port.isdigit() else _COOKIE


def cookie_in(header: str, name: str) -> str:
    """The cookie with this name in a Cookie header; empty if there's none."""
    for pair in header.split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return ""
