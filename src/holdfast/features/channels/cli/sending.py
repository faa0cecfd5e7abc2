"""`holdfast send`: a message or a file to a chat, and its delivery status."""

import asyncio
import mimetypes
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.features.channels.cli.actions import ChannelCalls
from holdfast.features.channels.http.bodies import SENT_BYTES_MAX, ChannelMessageShown
from holdfast.interfaces.ids import token_hex
from holdfast.safe_text import safe_line, sentences
from holdfast.tools.files.regular_files import read_regular

QUEUED = 4
LOOK_S = 0.3
NO_SERVER = "Queued. No server is running: it's sent when you start `holdfast serve`."


class ToSend(Struct, frozen=True):
    """A message for a chat, and how long to wait for its delivery."""

    place: str
    text: str
    file: Path | None
    key: str
    within_s: float


def send_message(flags: Mapping[str, object], wanted: ToSend) -> int:
    """Queue the message, wait for its delivery, and print the result."""

    async def work(attached: Attached) -> int:
        calls = ChannelCalls(attached.client)
        name, _, chat = wanted.place.partition(":")
        message = {"chat": chat, "text": wanted.text} | await _file(attached, wanted.file)
        sent = await calls.send(name, message, once=wanted.key or token_hex(16))
        if attached.is_own:
            echo_error(NO_SERVER)
            return QUEUED
        return _told(await _ended(calls, sent, wanted.within_s), await _problem(calls, sent.channel))

    return with_server(flags, work, works="nothing")


async def _file(attached: Attached, file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    data = await asyncio.to_thread(read_regular, file, bytes_max=SENT_BYTES_MAX)
    blob = await attached.client.upload(data)
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return {"blob": blob, "name": file.name, "media_type": media_type}


async def _ended(calls: ChannelCalls, sent: ChannelMessageShown, within_s: float) -> ChannelMessageShown:
    """Return its status when it's delivered or can't be, or when the time is over."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    shown = await calls.message(sent.channel, sent.id)
    while shown.state == "pending" and loop.time() < until_s:
        await asyncio.sleep(LOOK_S)
        shown = await calls.message(sent.channel, sent.id)
    return shown


async def _problem(calls: ChannelCalls, name: str) -> str:
    channel = next((one for one in await calls.list() if one.name == name), None)
    return sentences(channel.problem, channel.hint) if channel is not None and channel.problem else ""


def _told(shown: ChannelMessageShown, problem: str) -> int:
    """Print the delivery status; the exit code."""
    why = safe_line(shown.why)
    match shown.state:
        case "delivered":
            echo("Delivered.")
            return OK
        case "pending":
            echo_error(" ".join(filter(None, ["Queued. Holdfast keeps retrying.", problem or why])))
            return QUEUED
        case "unconfirmed":
            echo_error(f"It may have arrived; the platform didn't confirm it: {why}")
        case _:
            echo_error(f"Not delivered: {why}")
    return FAILED
