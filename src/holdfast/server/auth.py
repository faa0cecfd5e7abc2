"""Who is asking: API keys, sign-in cookies and the one-time tokens that are exchanged for them."""

import hmac
import secrets
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.interfaces import Clock, Notes
from holdfast.server.keys import AddedKeys, digest_of
from holdfast.server.options import ApiKey

COOKIE = "holdfast_sign_in"
OPEN = "open"  # the name under which everyone is known where there are no keys
_PREFIX = "sign_in:"
SIGN_INS_MAX = 1000
SIGNED_IN_FOR_MS = 30 * 86_400_000


class _SignIn(msgspec.Struct, frozen=True):
    """A browser that signed in; the note's key is the hash of its cookie."""

    key: str
    expires_at_ms: int
    secret: str = ""  # tells the key's secret from a later one under the same name


class KeyRing:
    """The keys that open this server, configured and added; None configured opens it to everyone."""

    def __init__(self, keys: Iterable[ApiKey] | None, added: AddedKeys) -> None:
        self.added = added
        self._configured: list[tuple[str, bytes]] | None = None
        self.made: frozenset[str] = frozenset()  # of those, the names of which no configuration knows
        self.replace(keys)

    def replace(self, keys: Iterable[ApiKey] | None) -> None:
        """Other keys from now on: a revoked one opens nothing, nor does what was signed in with it."""
        given = None if keys is None else list(keys)
        self._configured = None if given is None else [(key.name, digest_of(key.secret)) for key in given]
        self.made = frozenset(key.name for key in given or () if key.source == "made")

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._configured is None

    @property
    def configured(self) -> list[str]:
        """The names of those that the server was started with, which it cannot revoke."""
        return [name for name, _ in self._configured or ()]

    def holds(self, name: str, secret: str) -> bool:
        """Whether the key of this name is still good, and still the one with this mark."""
        return self.is_open or any(known == name and _mark(it) == secret for known, it in self._all())

    def mark_of(self, name: str) -> str:
        """What tells the secret of this name from any other; empty if there is no such key."""
        return next((_mark(digest) for known, digest in self._all() if known == name), "")

    def name_of(self, secret: str) -> str | None:
        """Whose key it is; every key is compared, in constant time."""
        if not secret:
            return None  # whatever is kept by mistake, no key is empty
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
    """A hash of the hash: it goes into notes of browsers, which are no place for what opens a key."""
    return digest_of(digest.hex()).hex()[:32]


class SignIns:
    """Browsers that are signed in, kept as notes so that a restart signs nobody out."""

    def __init__(self, notes: Notes, clock: Clock, keys: KeyRing) -> None:
        self._notes = notes
        self._clock = clock
        self._keys = keys
        self._known: dict[bytes, _SignIn] = {}
        self._tokens: dict[bytes, str] = {}

    async def load(self) -> None:
        """Remember those of an earlier process."""
        for key, raw in (await self._notes.notes(_PREFIX)).items():
            self._known[bytes.fromhex(key.removeprefix(_PREFIX))] = msgspec.json.decode(raw, type=_SignIn)

    def new_token(self, key_name: str) -> str:
        """A token for one sign-in on behalf of a key; it lives as long as this process."""
        token = secrets.token_urlsafe(32)
        self._tokens[digest_of(token)] = key_name
        return token

    def spend_token(self, token: str) -> str | None:
        """The name of the key that the token stands for; it opens nothing a second time."""
        name = self._tokens.pop(digest_of(token), None)
        return name if name is not None and self._keys.mark_of(name) else None

    async def sign_in_once(self, token: str) -> tuple[str, str] | None:
        """Whose token it is and a new cookie; where the store takes none now, the token is good again."""
        name = self.spend_token(token)
        if name is None:
            return None
        try:
            return name, await self.sign_in(name)
        except BaseException:
            self._tokens[digest_of(token)] = name
            raise

    async def sign_in(self, key_name: str) -> str:
        """A new cookie; it is on disk before the browser has it."""
        cookie = secrets.token_urlsafe(32)
        expires_at_ms = self._clock.now_ms() + SIGNED_IN_FOR_MS
        sign_in = _SignIn(key_name, expires_at_ms, self._keys.mark_of(key_name))
        name = digest_of(cookie)
        await self._notes.put_note(_PREFIX + name.hex(), msgspec.json.encode(sign_in))
        self._known[name] = sign_in
        await self._forget_old()
        return cookie

    async def sign_out(self, cookie: str) -> None:
        """The cookie opens nothing any more."""
        await self._forget(digest_of(cookie))

    def name_of(self, cookie: str) -> str | None:
        """Whose cookie it is, if it is good; only its hash is looked up, so its bytes leak no time."""
        known = self._known.get(digest_of(cookie))
        if (
            known is None
            or known.expires_at_ms <= self._clock.now_ms()
            or not self._keys.holds(known.key, known.secret)
        ):
            return None
        return known.key

    async def _forget_old(self) -> None:
        now_ms = self._clock.now_ms()
        for name in [name for name, one in self._known.items() if one.expires_at_ms <= now_ms]:
            await self._forget(name)
        while len(self._known) > SIGN_INS_MAX:
            await self._forget(min(self._known, key=lambda name: self._known[name].expires_at_ms))

    async def _forget(self, name: bytes) -> None:
        if name in self._known:
            # On disk first: what a refusing store still knows, a second try must find.
            await self._notes.drop_note(_PREFIX + name.hex())
            self._known.pop(name, None)


def cookie_in(header: str) -> str:
    """The sign-in cookie of a Cookie header, or nothing."""
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
