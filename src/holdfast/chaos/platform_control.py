"""What the control routes of all fake platforms share: bodies, scripts, and presses of buttons."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from aiohttp import web

from holdfast.chaos.exchanges import Scripts
from holdfast.chaos.script_text import BadScript

_Button = TypeVar("_Button")


async def given_in(request: web.Request, wanted: str) -> dict[str, Any]:
    """The JSON object in the body, which must have this field; raises what the route answers."""
    try:
        found: Any = json.loads(await request.read())
    except ValueError as error:
        raise web.HTTPBadRequest(text="The body must be a JSON object\n") from error
    if not isinstance(found, dict) or wanted not in found:
        raise web.HTTPBadRequest(text=f'The body must be a JSON object with a "{wanted}"\n')
    return dict(found)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def script_route(scripts: Scripts) -> web.RouteDef:
    """POST /fake/script: the body is a script, with lines like `sendMessage: accept; reset`."""

    async def script(request: web.Request) -> web.Response:
        try:
            scripts.add_text(await request.text())
        except BadScript as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        return web.json_response({"ok": True})

    return web.post("/fake/script", script)


def button_of(buttons: Mapping[str, _Button], label: object) -> _Button:
    """The button with this label that is on screen; raises what the route answers."""
    if not isinstance(label, str) or label not in buttons:
        known = ", ".join(buttons) or "none"
        raise web.HTTPNotFound(text=f"There is no such button; there are: {known}\n")
    return buttons[label]
