"""Subscriptions of clients to sessions, and their notification streams.

Up to 2025, a client subscribes in separate requests. They're stored as a note under the id of the client's
session, so they outlive this process. Since 2026, the stream's request lists its subscriptions.
"""

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakValueDictionary

import msgspec
from typing_extensions import override

from holdfast.features.mcp_server.peer import META
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, Json, RpcError, notification, sse
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.features.mcp_server.sessions import session_in
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.streams.feeds import SessionListChanges, SessionListFeed

SUBSCRIBED_MAX = 100
NOTES_MAX = 1_000
KEPT_MS = 7 * 86_400_000
_PREFIX = "mcp/subscriptions/"


class _Subscribed(msgspec.Struct):
    """The addresses that a client subscribed to, each with the seq of its session at that time."""

    at_ms: int
    uris: dict[str, int] = {}


class SubscriptionFeed(SessionListFeed):
    """Tells of changes to the sessions in `uris`; the addresses of each session by its id."""

    def __init__(self, changes: SessionListChanges, *, greeting: Sequence[Json], meta: Json) -> None:
        super().__init__(changes)
        self._greeting = ()
        self._pending = [sse(one) for one in greeting]
        self._meta = {"_meta": meta} if meta else {}
        self.uris: dict[str, set[str]] = {}

    def add(self, uri: str) -> None:
        """Tell of this address too."""
        self.uris.setdefault(session_in(uri) or "", set()).add(uri)

    def remove(self, uri: str) -> None:
        """Tell of it no more."""
        self.uris.get(session_in(uri) or "", set()).discard(uri)

    def tell(self, uris: Sequence[str]) -> None:
        """Say that these have changed."""
        self._pending += [sse(self._updated(uri)) for uri in uris]
        self.wake()

    @override
    async def more(self) -> Sequence[bytes] | None:
        if not self._pending:
            await super().more()
        pending, self._pending = self._pending, []
        return pending

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        ids = self._changes.ids_after(self._seen)
        self._seen = self._changes.number
        if ids is None:  # too far behind to know
            ids = list(self.uris)
        return [
            sse(self._updated(uri)) for id_ in dict.fromkeys(ids) for uri in sorted(self.uris.get(id_, ()))
        ]

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return None

    def _updated(self, uri: str) -> Json:
        return notification("notifications/resources/updated", {"uri": uri, **self._meta})


class Subscriptions:
    """Keeps what clients subscribed to, and makes their streams."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._open = WeakValueDictionary[str, SubscriptionFeed]()  # told at once what is subscribed

    async def subscribe(self, call: McpCall) -> Json:
        """`resources/subscribe`, up to 2025."""
        uri, key = _uri(call.params.get("uri")), _key(call.caller)
        known = await self._known(call.caller)
        if len(known.uris) >= SUBSCRIBED_MAX and uri not in known.uris:
            raise RpcError(INVALID_PARAMS, f"A client can subscribe to up to {SUBSCRIBED_MAX} resources")
        if not known.uris:
            await self._drop_old()
        known.uris[uri] = await self._deps.store.last_seq(session_in(uri) or "")
        known.at_ms = self._deps.clock.now_ms()
        await self._deps.store.put_note(key, msgspec.json.encode(known))
        if (feed := self._open.get(key)) is not None:
            feed.add(uri)
        return {}

    async def unsubscribe(self, call: McpCall) -> Json:
        """`resources/unsubscribe`, up to 2025."""
        uri, key = _uri(call.params.get("uri")), _key(call.caller)
        known = await self._known(call.caller)
        if known.uris.pop(uri, None) is not None:
            await self._deps.store.put_note(key, msgspec.json.encode(known))
        if (feed := self._open.get(key)) is not None:
            feed.remove(uri)
        return {}

    async def listening(self, caller: McpCaller) -> McpStream:
        """The stream of a client up to 2025: what it subscribed to, before and after."""
        feed = SubscriptionFeed(self._deps.list_changes, greeting=(), meta={})
        if caller.peer.session:
            self._open[_key(caller)] = feed
            known = await self._known(caller)
            for uri in known.uris:
                feed.add(uri)
            # It may have missed changes while it had no stream.
            last = {uri: await self._deps.store.last_seq(session_in(uri) or "") for uri in known.uris}
            feed.tell([uri for uri, seq in known.uris.items() if last[uri] > seq])
        return McpStream(feed)

    async def listen(self, call: McpCall) -> McpStream:
        """`subscriptions/listen`, since 2026."""
        wanted = call.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "Missing 'notifications'")
        given: Any = cast("Json", wanted).get("resourceSubscriptions", [])
        if not isinstance(given, list) or len(cast("list[Any]", given)) > SUBSCRIBED_MAX:
            text = f"'resourceSubscriptions' must be a list of up to {SUBSCRIBED_MAX} URIs"
            raise RpcError(INVALID_PARAMS, text)
        uris = [_uri(one) for one in cast("list[Any]", given)]
        meta: Json = {f"{META}subscriptionId": call.id}
        agreed: Json = {"resourceSubscriptions": uris} if uris else {}
        greeting = {"notifications": agreed, "_meta": meta}
        method = "notifications/subscriptions/acknowledged"
        feed = SubscriptionFeed(self._deps.list_changes, greeting=[notification(method, greeting)], meta=meta)
        for uri in uris:
            feed.add(uri)
        return McpStream(feed)

    async def _known(self, caller: McpCaller) -> _Subscribed:
        if not caller.peer.session:
            raise RpcError(INVALID_PARAMS, "Send the header Mcp-Session-Id returned by 'initialize'")
        note = await self._deps.store.note(_key(caller))
        if note is None:
            return _Subscribed(self._deps.clock.now_ms())
        return msgspec.json.decode(note, type=_Subscribed)

    async def _drop_old(self) -> None:
        """Forget clients that haven't subscribed to anything for long, and the oldest of too many."""
        notes = await self._deps.store.notes(_PREFIX)
        ages = sorted((msgspec.json.decode(note, type=_Subscribed).at_ms, key) for key, note in notes.items())
        too_many = max(0, len(ages) - NOTES_MAX + 1)
        before_ms = self._deps.clock.now_ms() - KEPT_MS
        for at, (at_ms, key) in enumerate(ages):
            if at < too_many or at_ms < before_ms:
                await self._deps.store.drop_note(key)


def _key(caller: McpCaller) -> str:
    """Return the name of the client's note, which is separate for each key."""
    by: str = caller.scope[KEY_NAME]
    return f"{_PREFIX}{caller.peer.session}/{by}"


def _uri(given: object) -> str:
    if not isinstance(given, str) or session_in(given) is None:
        raise RpcError(INVALID_PARAMS, "'uri' must be the URI of a session: holdfast://sessions/ID")
    return given
