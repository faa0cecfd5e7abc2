"""Named keys over HTTP: list, add and revoke them."""

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.access import CreateKeyRequest, KeyList, KeyMade, KeyRevoked, KeyShown
from holdfast.api.operation import SCOPES, Scope
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.access.keys import KEYS_MAX, NAME_CHARS_MAX, AddedKeys, KeyExists, is_key_name
from holdfast.server.access.request_secrets import check_is_no_key
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request, too_many
from holdfast.server.transport.bodies import decoded, json_response


class KeyRoutes:
    """The routes under /api/keys; only the response that creates a key contains its secret."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    @property
    def _added(self) -> AddedKeys:
        return self._deps.keys.added

    async def list(self, request: Request) -> Response:
        """GET /api/keys."""
        del request
        keys = self._deps.keys
        given = [_shown(name, "made" if name in keys.made else "configured") for name in keys.configured]
        added = [
            _shown(key.name, "added", created_ms=key.created_ms, scopes=keys.scopes_of(key.name))
            for key in self._added.list()
        ]
        return json_response(KeyList(data=(*given, *added)))

    async def add(self, request: Request) -> Response:
        """POST /api/keys."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, CreateKeyRequest)
        name, scopes = wanted.name.strip(), SCOPES if wanted.scopes is None else wanted.scopes
        if not is_key_name(name):
            raise bad_request(
                f"'name' must be 1 to {NAME_CHARS_MAX} printable characters without / and \\", param="name"
            )
        check_is_no_key(name, param="name")
        if not scopes:
            raise bad_request(f"'scopes' must contain at least one of {', '.join(SCOPES)}", param="scopes")
        if deps.keys.is_open:
            raise Problem(
                409, "Authentication is disabled on this server, so it needs no keys", code="no_keys_needed"
            )
        if len(self._added.list()) >= KEYS_MAX:
            raise too_many(
                f"The limit of {KEYS_MAX} keys is reached. Revoke one first",
                code="too_many_keys",
                retry_after_s=60,
            )
        if name in deps.keys.configured:
            raise _exists()
        try:
            secret = await self._added.add(name, scopes)
        except KeyExists:
            raise _exists() from None
        # A key that was revoked meanwhile is gone.
        known_ms = (key.created_ms for key in self._added.list() if key.name == name)
        created_ms = next(known_ms, deps.clock.now_ms())
        shown = _shown(name, "added", created_ms=created_ms, scopes=scopes)
        made = KeyMade(**asdict(shown), key=secret)
        return json_response(made, 201, headers={"Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """DELETE /api/keys/{name}."""
        name: str = request.path_params["name"]
        if not await self._revoked(name):
            if name in self._deps.keys.made:
                why = "This key is in the data directory. To replace it, delete the file api-key and restart"
                raise Problem(409, why, code="key_configured", param="name")
            if name in self._deps.keys.configured:
                why = "This key is in the configuration. Remove it there, then restart"
                raise Problem(409, why, code="key_configured", param="name")
            raise Problem(404, "No key has this name", code="key_not_found", param="name")
        return json_response(KeyRevoked(name=name, deleted=True))

    async def _revoked(self, name: str) -> bool:
        try:
            return await self._added.revoke(name)
        finally:
            if not self._deps.keys.is_open and not self._deps.keys.mark_of(name):
                # The key no longer works, saved or not, so streams that it or its sign-ins opened end.
                self._deps.streams.end_where(lambda scope: scope.get(KEY_NAME) == name)


def _shown(
    name: str,
    source: Literal["configured", "made", "added"],
    *,
    created_ms: int | None = None,
    scopes: Iterable[Scope] = SCOPES,
) -> KeyShown:
    created_at = None if created_ms is None else created_ms / 1000
    held = frozenset(scopes)
    return KeyShown(
        name=name,
        source=source,
        created_at=created_at,
        scopes=tuple(one for one in SCOPES if one in held),
    )


def _exists() -> Problem:
    return Problem(409, "A key with this name already exists", code="key_exists", param="name")
