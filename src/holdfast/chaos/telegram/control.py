"""Routes by which people and other programs play the users of the fake Telegram, and read its record."""

from typing import Any

from aiohttp import web

from holdfast.chaos.exchanges import Scripts
from holdfast.chaos.platform_control import button_of, given_in, script_route
from holdfast.chaos.telegram.world import Chat, World


def control_routes(world: World, scripts: Scripts) -> list[web.RouteDef]:
    """`/fake/…`: say, edit, click, file, block, script, chats and calls."""
    control = _Control(world)
    return [
        web.post("/fake/say", control.say),
        web.post("/fake/edit", control.edit),
        web.post("/fake/click", control.click),
        web.post("/fake/file", control.file),
        web.post("/fake/block", control.block),
        script_route(scripts),
        web.get("/fake/chats", control.chats),
        web.get("/fake/calls", control.calls),
    ]


class _Control:
    """What the routes do."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def say(self, request: web.Request) -> web.Response:
        """{"chat": 42, "text": "hello", "user": 42, "thread": 0} is a message to the bot."""
        given = await given_in(request, "chat")
        message = self._world.say(
            int(given["chat"]),
            str(given["text"]),
            user_id=int(given.get("user", 0)),
            thread=int(given.get("thread", 0)),
        )
        return web.json_response(message)

    async def edit(self, request: web.Request) -> web.Response:
        """{"chat": 42, "message": 1, "text": "hello!"} edits what someone said."""
        given = await given_in(request, "chat")
        chat = self._world.chat(int(given["chat"]))
        if int(given["message"]) not in chat.messages:
            raise web.HTTPNotFound(text="There is no message with this id\n")
        return web.json_response(self._world.edit(chat.chat_id, int(given["message"]), str(given["text"])))

    async def click(self, request: web.Request) -> web.Response:
        """{"chat": 42, "button": "Allow once", "user": 42} presses a button that is on screen."""
        given = await given_in(request, "chat")
        chat_id = int(given["chat"])
        buttons = self._world.buttons(chat_id)
        message_id, data = button_of(buttons, given.get("button"))
        click = self._world.click(chat_id, message_id, data, user_id=int(given.get("user", 0)))
        return web.json_response({"id": click})

    async def file(self, request: web.Request) -> web.Response:
        """The body is a file, the query says the rest: ?chat=42&kind=photo&name=a.png&caption=look."""
        query = request.query
        message = self._world.send_file(
            int(query["chat"]),
            await request.read(),
            kind=query.get("kind", "document"),
            name=query.get("name", "notes.txt"),
            caption=query.get("caption", ""),
        )
        return web.json_response(message)

    async def block(self, request: web.Request) -> web.Response:
        """{"chat": 42} blocks the bot; with "blocked": false, no longer."""
        given = await given_in(request, "chat")
        self._world.chat(int(given["chat"])).blocked = bool(given.get("blocked", True))
        return web.json_response({"ok": True})

    async def chats(self, request: web.Request) -> web.Response:
        """All chats with their messages, as people see them now."""
        del request
        return web.json_response([_shown(chat) for chat in self._world.chats.values()])

    async def calls(self, request: web.Request) -> web.Response:
        """Every received request with its outcome; `?method=sendMessage` shows one method."""
        wanted = request.query.get("method", "")
        calls = [call for call in self._world.calls if wanted in {"", call.method}]
        shown = [
            {
                "method": call.method,
                "parameters": {key: str(value)[:10_000] for key, value in call.parameters.items()},
                "outcome": call.outcome,
                "message_id": call.message_id,
            }
            for call in calls
        ]
        return web.json_response(shown)


def _shown(chat: Chat) -> dict[str, Any]:
    return {"chat": chat.shown(), "blocked": chat.blocked, "messages": list(chat.messages.values())}
