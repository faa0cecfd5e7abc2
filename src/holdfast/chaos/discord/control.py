"""Routes by which people and other programs play the users of the fake Discord, and read its record."""

from typing import Any

from aiohttp import web

from holdfast.chaos.discord.world import Channel, DiscordWorld
from holdfast.chaos.exchanges import Scripts
from holdfast.chaos.platform_control import button_of, given_in, script_route

CLOSED = (403, 50007, "Cannot send messages to this user")


def control_routes(world: DiscordWorld, scripts: Scripts) -> list[web.RouteDef]:
    """`/fake/…`: say, edit, delete, click, command, file, block, sockets, script, chats and calls."""
    control = _Control(world)
    return [
        web.post("/fake/say", control.say),
        web.post("/fake/edit", control.edit),
        web.post("/fake/delete", control.delete),
        web.post("/fake/click", control.click),
        web.post("/fake/command", control.command),
        web.post("/fake/file", control.file),
        web.post("/fake/block", control.block),
        web.post("/fake/sockets", control.sockets),
        script_route(scripts),
        web.get("/fake/chats", control.chats),
        web.get("/fake/calls", control.calls),
    ]


class _Control:
    """What the routes do. A place is {"user": 42}, or with "channel" and perhaps "thread" in the guild."""

    def __init__(self, world: DiscordWorld) -> None:
        self._world = world

    async def say(self, request: web.Request) -> web.Response:
        """{"user": 42, "text": "hello"} is a direct message to the bot."""
        given = await _given(request)
        text = str(given["text"]).replace("@holdfast", self._world.mention)
        return web.json_response(self._world.say(self._place(given), text, user=given["user"]))

    async def edit(self, request: web.Request) -> web.Response:
        """{"user": 42, "message": "1", "text": "hello!"} edits what someone said."""
        given = await _given(request)
        channel = self._place(given)
        return web.json_response(self._world.edit(channel, _message(channel, given), str(given["text"])))

    async def delete(self, request: web.Request) -> web.Response:
        """{"user": 42, "message": "1"} deletes a message, also one of the bot."""
        given = await _given(request)
        channel = self._place(given)
        self._world.delete(channel, _message(channel, given))
        return web.json_response({"ok": True})

    async def click(self, request: web.Request) -> web.Response:
        """{"user": 42, "button": "Allow once"} presses a button that is on screen."""
        given = await _given(request)
        channel = self._place(given)
        buttons = self._world.buttons(channel)
        message_id, data = button_of(buttons, given.get("button"))
        made = self._world.click(channel, message_id, data, user=given["user"])
        return web.json_response({"id": made.interaction_id})

    async def command(self, request: web.Request) -> web.Response:
        """{"user": 42, "name": "model", "value": "main"} uses a command of the bot."""
        given = await _given(request)
        known = [one["name"] for one in self._world.commands]
        if given.get("name") not in known:
            raise web.HTTPNotFound(
                text=f"There is no such command; there are: {', '.join(known) or 'none'}\n"
            )
        value = str(given.get("value", ""))
        made = self._world.command(self._place(given), given["name"], value, user=given["user"])
        return web.json_response({"id": made.interaction_id})

    async def file(self, request: web.Request) -> web.Response:
        """The body is a file, the query says the rest: ?user=42&name=a.png&type=image/png&text=look."""
        query = request.query
        message = self._world.send_file(
            self._place(dict(query)),
            await request.read(),
            name=query.get("name", "notes.txt"),
            media_type=query.get("type", "text/plain"),
            text=query.get("text", ""),
            user=query["user"],
        )
        return web.json_response(message)

    async def block(self, request: web.Request) -> web.Response:
        """{"user": 42} takes no messages of the bot any more; with "blocked": false, it does again."""
        given = await _given(request)
        self._place(given).refusal = CLOSED if given.get("blocked", True) else None
        return web.json_response({"ok": True})

    async def sockets(self, request: web.Request) -> web.Response:
        """{"user": 0, "do": "drop"} cuts them; "forget" their sessions, too; "reconnect" asks for it."""
        do = (await _given(request)).get("do")
        sessions = self._world.sessions
        known = {"drop": sessions.drop, "forget": sessions.forget, "reconnect": sessions.ask_to_reconnect}
        if do not in known:
            raise web.HTTPBadRequest(text='"do" is drop, forget or reconnect\n')
        known[do]()
        return web.json_response({"sockets": sessions.sockets})

    async def chats(self, request: web.Request) -> web.Response:
        """All channels with their messages, as people see them now."""
        del request
        return web.json_response([_shown(channel) for channel in self._world.channels.values()])

    async def calls(self, request: web.Request) -> web.Response:
        """Every received request with its outcome; `?name=createMessage` shows one kind."""
        wanted = request.query.get("name", "")
        shown = [
            {
                "name": call.name,
                "channel": call.channel,
                "parameters": {key: str(value)[:10_000] for key, value in call.parameters.items()},
                "outcome": call.outcome,
                "message_id": call.message_id,
            }
            for call in self._world.calls
            if wanted in {"", call.name}
        ]
        return web.json_response(shown)

    def _place(self, given: dict[str, Any]) -> Channel:
        if not given.get("channel"):
            return self._world.direct(given["user"])
        channel = self._world.channel(str(given["channel"]))
        return self._world.thread(channel, str(given["thread"])) if given.get("thread") else channel


def _shown(channel: Channel) -> dict[str, Any]:
    return {
        "channel": channel.shown(),
        "closed": channel.refusal is not None,
        "messages": list(channel.messages.values()),
        "whispers": channel.whispers,
    }


def _message(channel: Channel, given: dict[str, Any]) -> str:
    message_id = str(given.get("message", ""))
    if message_id not in channel.messages:
        raise web.HTTPNotFound(text="There is no message with this id\n")
    return message_id


async def _given(request: web.Request) -> dict[str, Any]:
    given = await given_in(request, "user")
    if not str(given["user"]).isdigit():
        raise web.HTTPBadRequest(text='"user" must be a number\n')
    return given
