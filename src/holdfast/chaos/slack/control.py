"""Routes by which people and other programs play the people of the fake Slack, and read its record."""

import json
from typing import Any

from aiohttp import web

from holdfast.chaos.exchanges import Scripts
from holdfast.chaos.platform_control import button_of, given_in, script_route
from holdfast.chaos.slack.hook import SlackHook
from holdfast.chaos.slack.sockets import SlackSockets
from holdfast.chaos.slack.world import SlackConversation, SlackWorld


def control_routes(
    world: SlackWorld, scripts: Scripts, sockets: SlackSockets, hook: SlackHook
) -> list[web.RouteDef]:
    """`/fake/…`: say, edit, delete, click, command, file, archive, sockets, hook, script, chats and calls."""
    control = _Control(world, sockets, hook)
    return [
        web.post("/fake/say", control.say),
        web.post("/fake/edit", control.edit),
        web.post("/fake/delete", control.delete),
        web.post("/fake/click", control.click),
        web.post("/fake/command", control.command),
        web.post("/fake/file", control.file),
        web.post("/fake/archive", control.archive),
        web.post("/fake/sockets", control.sockets),
        web.post("/fake/hook", control.hook),
        script_route(scripts),
        web.get("/fake/chats", control.chats),
        web.get("/fake/calls", control.calls),
    ]


class _Control:
    """What the routes do. A `chat` is a channel's id: D42 is direct with U42, C5 is a channel."""

    def __init__(self, world: SlackWorld, sockets: SlackSockets, hook: SlackHook) -> None:
        self._world = world
        self._sockets = sockets
        self._hook = hook

    async def say(self, request: web.Request) -> web.Response:
        """{"chat": "D42", "text": "hello", "user": "U42", "thread": ""}; `@bot` mentions the bot."""
        given = await given_in(request, "chat")
        message = self._world.say(
            str(given["chat"]),
            str(given["text"]),
            user=str(given.get("user", "")),
            thread=str(given.get("thread", "")),
        )
        return web.json_response(message)

    async def edit(self, request: web.Request) -> web.Response:
        """{"chat": "D42", "message": "1800000001.000001", "text": "hello!"} edits what someone said."""
        given = await given_in(request, "chat")
        return web.json_response(
            self._world.edit(str(given["chat"]), self._message(given), str(given["text"]))
        )

    async def delete(self, request: web.Request) -> web.Response:
        """{"chat": "D42", "message": "1800000001.000001"} deletes a message, also one of the bot."""
        given = await given_in(request, "chat")
        self._world.delete(str(given["chat"]), self._message(given))
        return web.json_response({"ok": True})

    async def click(self, request: web.Request) -> web.Response:
        """{"chat": "D42", "button": "Allow once", "user": "U42"} presses a button that is on screen."""
        given = await given_in(request, "chat")
        channel = str(given["chat"])
        buttons = self._world.buttons(channel)
        ts, value = button_of(buttons, given.get("button"))
        trigger = self._world.click(channel, ts, value, user=str(given.get("user", "")))
        return web.json_response({"id": trigger})

    async def command(self, request: web.Request) -> web.Response:
        """{"chat": "D42", "text": "new", "user": "U42"} is the slash command `/holdfast new`."""
        given = await given_in(request, "chat")
        self._world.command(
            str(given["chat"]),
            str(given.get("text", "")),
            command=str(given.get("command", "/holdfast")),
            user=str(given.get("user", "")),
        )
        return web.json_response({"ok": True})

    async def file(self, request: web.Request) -> web.Response:
        """The body is a file, the query says the rest: ?chat=D42&name=a.png&mimetype=image/png&text=look."""
        query = request.query
        message = self._world.send_file(
            query["chat"],
            await request.read(),
            name=query.get("name", "notes.txt"),
            mimetype=query.get("mimetype", "text/plain"),
            text=query.get("text", ""),
        )
        return web.json_response(message)

    async def archive(self, request: web.Request) -> web.Response:
        """{"chat": "C5"} archives the channel; with "archived": false, no longer."""
        given = await given_in(request, "chat")
        self._world.conversation(str(given["chat"])).archived = bool(given.get("archived", True))
        return web.json_response({"ok": True})

    async def sockets(self, request: web.Request) -> web.Response:
        """{"do": "cut"} drops all sockets, {"do": "refresh"} asks for new ones."""
        given: Any = json.loads(await request.read() or b"{}")
        if given.get("do") == "refresh":
            await self._sockets.refresh()
        else:
            await self._sockets.cut()
        return web.json_response({"open": len(self._sockets.open)})

    async def hook(self, request: web.Request) -> web.Response:
        """{"url": "http://…/hooks/channels/sl"} is where the app is called, once it answers the challenge.

        An empty one goes back to sockets.
        """
        given = await given_in(request, "url")
        why = await self._hook.verify(str(given["url"]))
        if why:
            raise web.HTTPBadRequest(text=f"The address doesn't answer the challenge: {why}\n")
        return web.json_response({"url": self._hook.url})

    async def chats(self, request: web.Request) -> web.Response:
        """All conversations with their messages, as people see them now."""
        del request
        return web.json_response([_shown(one) for one in self._world.conversations.values()])

    async def calls(self, request: web.Request) -> web.Response:
        """Every received request with its outcome; `?method=chat.update` shows one method."""
        wanted = request.query.get("method", "")
        calls = [call for call in self._world.calls if wanted in {"", call.method}]
        shown = [
            {
                "method": call.method,
                "arguments": {key: str(value)[:10_000] for key, value in call.arguments.items()},
                "outcome": call.outcome,
                "ts": call.ts,
            }
            for call in calls
        ]
        return web.json_response(shown)

    def _message(self, given: dict[str, Any]) -> str:
        ts = str(given.get("message", ""))
        if ts not in self._world.conversation(str(given["chat"])).messages:
            raise web.HTTPNotFound(text="There is no message with this ts\n")
        return ts


def _shown(conversation: SlackConversation) -> dict[str, Any]:
    return {
        "chat": conversation.channel,
        "archived": conversation.archived,
        "bot_says": conversation.texts(),
        "ephemeral": conversation.ephemeral,
        "messages": list(conversation.messages.values()),
    }
