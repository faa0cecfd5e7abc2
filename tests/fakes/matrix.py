"""A fake homeserver: the methods of the client-server API that a bot uses, with scripted faults.

Transaction ids, sync tokens, limited timelines, threads, redactions, invitations and media work as the public
specification (v1.11) says. Nothing is encrypted.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from msgspec import Struct, field

from fakes.exchanges import Accept, Double, Exchange, PlatformStep, ResetConnection, Scripts, broken, played
from holdfast.chaos.gates import Notifier

TOKEN = "syt_fake"  # noqa: S105  # nothing real is behind it
US = "@agent:us.example"
SYNC_S_MAX = 30.0
BODY_BYTES_MAX = 64 * 1024 * 1024


class MatrixLimit(Struct, frozen=True):
    """Refuse with 429."""

    seconds: float = 1.0

    async def perform(self, exchange: Exchange) -> None:
        """Set the answer."""
        exchange.status = 429
        exchange.answer = {
            "errcode": "M_LIMIT_EXCEEDED",
            "error": "Too Many Requests",
            "retry_after_ms": int(1000 * self.seconds),
        }


WORDS: Mapping[str, Callable[..., PlatformStep]] = {
    "accept": Accept,
    "reset": ResetConnection,
    "double": Double,
}


class FakeRoom(Struct):
    """A room and its events, each with its place in the stream."""

    room_id: str
    members: set[str]
    invited: dict[str, str] = field(default_factory=dict[str, str])  # who -> by whom
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])
    left: bool = False


class FakeMatrix:
    """A homeserver with one bot; an async context manager."""

    def __init__(self) -> None:
        self.scripts = Scripts(WORDS)
        self.changed = Notifier()
        self.rooms: dict[str, FakeRoom] = {}
        self.media: dict[str, bytes] = {}
        self.timeline_max = 100
        self.syncs = 0
        self._sent: dict[str, str] = {}  # transactions
        self._numbers = itertools.count(1)
        self._now = 1
        self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The homeserver's address."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        client, room = "/_matrix/client/v3", "/_matrix/client/v3/rooms/{room}"
        app.router.add_get(f"{client}/account/whoami", self._plain(self._whoami))
        app.router.add_get(f"{client}/sync", self._scripted("sync", self._sync))
        app.router.add_put(room + "/send/{kind}/{txn}", self._scripted("message", self._send))
        app.router.add_get(f"{room}/messages", self._scripted("messages", self._messages))
        app.router.add_get(f"{room}/joined_members", self._plain(self._members))
        app.router.add_post(f"{room}/join", self._plain(self._join))
        app.router.add_post("/_matrix/media/v3/upload", self._scripted("upload", self._upload))
        app.router.add_get("/_matrix/client/v1/media/download/{server}/{media}", self._download)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    # People.

    def room(self, *people: str) -> FakeRoom:
        """Make a room with these people and the bot, or return it."""
        room_id = f"!{'-'.join(one[1:].partition(':')[0] for one in people)}:us.example"
        if room_id not in self.rooms:
            self.rooms[room_id] = FakeRoom(room_id, {US, *people})
        return self.rooms[room_id]

    def invite(self, person: str) -> FakeRoom:
        """Make a room and invite the bot."""
        room = self.room(person)
        room.members.discard(US)
        room.invited[US] = person
        self._tell()
        return room

    def say(self, room: FakeRoom, person: str, body: str, **content: Any) -> str:
        """Someone writes; the event's id."""
        return self.event(room, person, "m.room.message", {"msgtype": "m.text", "body": body} | content)

    def event(self, room: FakeRoom, person: str, kind: str, content: Mapping[str, Any], **more: Any) -> str:
        """Put an event into a room; its id."""
        event_id = f"$e{next(self._numbers)}"
        event = {"type": kind, "event_id": event_id, "sender": person, "content": dict(content)} | more
        self._now += 1
        room.events.append((self._now, event))
        self.changed.notify()
        return event_id

    def sent(self, room: FakeRoom) -> list[dict[str, Any]]:
        """The contents of what the bot sent to a room."""
        return [event["content"] for _, event in room.events if event["sender"] == US]

    def _tell(self) -> None:
        self._now += 1
        self.changed.notify()

    # Methods.

    def _plain(self, method: Callable[[web.Request], Awaitable[Mapping[str, object]]]) -> Any:
        return self._scripted("", method)

    def _scripted(self, name: str, method: Callable[[web.Request], Awaitable[Mapping[str, object]]]) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return web.json_response({"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown token"}, status=401)
            exchange = Exchange(accept=lambda: method(request))
            try:
                await played(self.scripts.next(name, request.match_info.get("room", "")), exchange)
            except PermissionError:
                return web.json_response({"errcode": "M_FORBIDDEN", "error": "not in the room"}, status=403)
            if (response := broken(exchange, request)) is not None:
                return response
            return web.json_response(exchange.answer, status=exchange.status)

        return answer

    async def _whoami(self, request: web.Request) -> Mapping[str, object]:
        del request
        return {"user_id": US}

    async def _sync(self, request: web.Request) -> Mapping[str, object]:
        since = int(request.query.get("since", "s0")[1:])
        self.syncs += 1
        self.changed.notify()
        if since:
            try:
                async with asyncio.timeout(min(int(request.query["timeout"]) / 1000, SYNC_S_MAX)):
                    await self.changed.until(lambda: self._now > since)
            except TimeoutError:
                pass
        joined: dict[str, object] = {}
        invited: dict[str, object] = {}
        for room in self.rooms.values():
            news = [event for at, event in room.events if at > since]
            if US in room.members and (news or not since):
                cut = news[-self.timeline_max :]
                first = next((at for at, event in room.events if cut and event is cut[0]), self._now)
                timeline = {"events": cut, "limited": len(cut) < len(news), "prev_batch": f"s{first - 1}"}
                joined[room.room_id] = {"timeline": timeline}
            elif US in room.invited:
                member = {"type": "m.room.member", "state_key": US, "sender": room.invited[US]}
                invited[room.room_id] = {"invite_state": {"events": [member]}}
        return {"next_batch": f"s{self._now}", "rooms": {"join": joined, "invite": invited}}

    def _room_of(self, request: web.Request) -> FakeRoom:
        room = self.rooms.get(request.match_info["room"])
        if room is None or US not in room.members:
            raise PermissionError
        return room

    async def _send(self, request: web.Request) -> Mapping[str, object]:
        room, txn = self._room_of(request), request.match_info["txn"]
        content = json.loads(await request.read())
        if txn not in self._sent:
            kind = request.match_info["kind"]
            self._sent[txn] = self.event(room, US, kind, content, unsigned={"transaction_id": txn})
        return {"event_id": self._sent[txn]}

    async def _messages(self, request: web.Request) -> Mapping[str, object]:
        room, limit = self._room_of(request), int(request.query.get("limit", "10"))
        start = int(request.query.get("from", f"s{self._now}")[1:])
        end = int(request.query.get("to", "s0")[1:])
        found = [(at, event) for at, event in room.events if end < at <= start][::-1]
        more = {"end": f"s{found[limit][0]}"} if len(found) > limit else {}
        return {"chunk": [event for _, event in found[:limit]], **more}

    async def _members(self, request: web.Request) -> Mapping[str, object]:
        return {"joined": {member: dict[str, str]() for member in self._room_of(request).members}}

    async def _join(self, request: web.Request) -> Mapping[str, object]:
        room = self.rooms[request.match_info["room"]]
        if room.invited.pop(US, None) is None:
            raise PermissionError
        room.members.add(US)
        self.event(room, US, "m.room.member", {"membership": "join"}, state_key=US)
        return {"room_id": room.room_id}

    async def _upload(self, request: web.Request) -> Mapping[str, object]:
        name = f"m{next(self._numbers)}"
        self.media[name] = await request.read()
        return {"content_uri": f"mxc://us.example/{name}"}

    async def _download(self, request: web.Request) -> web.StreamResponse:
        data = self.media.get(request.match_info["media"])
        return web.Response(body=data) if data is not None else web.json_response({}, status=404)
