"""Every way to answer an approval, for the table in test_answering.py.

Each answers one open approval with a choice, and returns whether it was reported as answered.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from fakes.discord import FakeDiscord
from fakes.slack import FakeSlack
from fakes.telegram import FakeTelegram
from features.acp.editor import Editor
from features.channels.discord import lab as discord_lab
from features.channels.lab import ME
from features.channels.lab import options_for as telegram_options
from features.channels.slack.slack_lab import MY
from features.channels.slack.slack_lab import options_for as slack_options
from features.mcp_server.rpc_client import RpcClient
from holdfast import events as e
from holdfast.chaos.gates import Notifier
from holdfast.cli.approvals import answer_ask
from holdfast.cli.asks import AskMenu, Unclear, read_answer, send_answer
from holdfast.cli.attach import OK
from holdfast.client import Client
from holdfast.client.errors import Refused
from holdfast.features.acp.session import EditorSession
from holdfast.features.channels.approvals import NOT_OFFERED
from holdfast.features.channels.cards import CHOICES
from holdfast.features.channels.deps import ChannelOptions
from holdfast.host.lock import DirectoryLock
from holdfast.interfaces.journal import Store
from holdfast.values import Choice, Width
from serving import Served

Row = dict[str, Any]
NOT_TAKEN = "wasn't accepted"


class Chat(Protocol):
    """A person's own chat with the bot on one platform."""

    def fake(self) -> AbstractAsyncContextManager[object]:
        """The platform, until the block ends."""
        ...

    def options(self, **fields: object) -> ChannelOptions:
        """The channel in the settings."""
        ...

    @property
    def changed(self) -> Notifier:
        """Notifies about each change there."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether messages reach the bot."""
        ...

    def say(self, text: str) -> None:
        """Write to the bot."""
        ...

    def buttons(self) -> Mapping[str, object]:
        """The buttons on screen, by label."""
        ...

    def press(self, label: str) -> None:
        """Press a button."""
        ...

    def replies(self) -> Sequence[str]:
        """The texts about presses and commands."""
        ...


class TelegramChat:
    """Telegram, which also says in words that a press counts."""

    def __init__(self) -> None:
        self._fake = FakeTelegram()
        self.is_connected = True  # Telegram stores messages until the bot fetches them

    def fake(self) -> FakeTelegram:
        return self._fake

    def options(self, **fields: object) -> ChannelOptions:
        return telegram_options(self._fake, **fields)

    @property
    def changed(self) -> Notifier:
        return self._fake.world.changed

    def say(self, text: str) -> None:
        self._fake.world.say(ME, text)

    def buttons(self) -> Mapping[str, object]:
        return self._fake.world.buttons(ME)

    def press(self, label: str) -> None:
        self._fake.world.click(ME, *self._fake.world.buttons(ME)[label])

    def replies(self) -> Sequence[str]:
        pressed = [str(one.parameters["text"]) for one in self._fake.world.done("answerCallbackQuery")]
        return [*pressed, *self._fake.world.chat(ME).texts()]


class SlackChat:
    """Slack, which says nothing about a press that counts: the card shows it."""

    def __init__(self) -> None:
        self._fake = FakeSlack()

    def fake(self) -> FakeSlack:
        return self._fake

    def options(self, **fields: object) -> ChannelOptions:
        return slack_options(self._fake, **fields)

    @property
    def changed(self) -> Notifier:
        return self._fake.world.changed

    @property
    def is_connected(self) -> bool:
        return bool(self._fake.sockets.open)

    def say(self, text: str) -> None:
        self._fake.world.say(MY, text)

    def buttons(self) -> Mapping[str, object]:
        return self._fake.world.buttons(MY)

    def press(self, label: str) -> None:
        self._fake.world.click(MY, *self._fake.world.buttons(MY)[label])

    def replies(self) -> Sequence[str]:
        return [text for _, text in self._fake.world.conversation(MY).ephemeral]


class DiscordChat:
    """Discord, which says nothing about a press that counts, either."""

    def __init__(self) -> None:
        self._fake = FakeDiscord()

    def fake(self) -> FakeDiscord:
        return self._fake

    def options(self, **fields: object) -> ChannelOptions:
        return discord_lab.options_for(self._fake, **fields)

    @property
    def changed(self) -> Notifier:
        return self._fake.world.changed

    @property
    def is_connected(self) -> bool:
        sessions = self._fake.world.sessions
        return bool(self._fake.world.commands and sessions.sockets and sessions.known)

    def say(self, text: str) -> None:
        self._fake.world.say(self._fake.world.direct(discord_lab.ME), text)

    def buttons(self) -> Mapping[str, object]:
        return self._fake.world.buttons(self._fake.world.direct(discord_lab.ME))

    def press(self, label: str) -> None:
        channel = self._fake.world.direct(discord_lab.ME)
        self._fake.world.click(channel, *self._fake.world.buttons(channel)[label])

    def replies(self) -> Sequence[str]:
        return [text for one in self._fake.world.interactions.values() for text in one.texts]


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, its store, and the chat in which its runs ask."""

    server: Served
    store: Store
    chat: Chat
    folder: Path


class Answer(Protocol):
    """Answers an approval; "exact" is the width that people get if they name none."""

    async def __call__(self, scene: Scene, row: Row, choice: Choice, width: Width = "exact", /) -> bool:
        """Whether it was reported as answered."""
        ...


@dataclass(frozen=True, slots=True)
class Face:
    """One interface, and the chat that its runs come from."""

    answer: Answer
    chat: Callable[[], Chat] = TelegramChat
    widths: tuple[Width, ...] = ("exact",)


async def by_native(scene: Scene, row: Row, choice: Choice, width: Width = "exact") -> bool:
    body = {"choice": choice, "approval_id": row["approval_id"], "width": width}
    return (await scene.server.post(f"/v1/runs/{row['run_id']}/approval", body))[0] == 200


async def by_hermes(scene: Scene, row: Row, choice: Choice, width: Width = "exact") -> bool:
    frame = (await scene.server.until(row["run_id"], "approval.request")).data
    body = {"choice": choice, "request_id": frame["request_id"], "width": width}
    return (await scene.server.post(f"/v1/runs/{row['run_id']}/approval", body))[0] == 200


async def by_ag_ui(scene: Scene, row: Row, choice: Choice, _: Width = "exact") -> bool:
    answer = {"interruptId": row["approval_id"], "status": "resolved", "payload": {"choice": choice}}
    body = {"threadId": row["session_id"], "runId": "r2", "messages": [], "resume": [answer]}
    return (await scene.server.call("POST", "/ag-ui", body=body)).status == 200


async def by_mcp(scene: Scene, row: Row, choice: Choice, _: Width = "exact") -> bool:
    client = await RpcClient(scene.server).begun()
    return not (await client.tool("answer", id=row["approval_id"], answer=choice))["isError"]


async def by_acp(scene: Scene, row: Row, choice: Choice, _: Width = "exact") -> bool:
    """An editor that opens the session while the approval waits."""
    editor = Editor(choice)
    async with Client(scene.server.url) as client:
        session = EditorSession(
            client, cast("Any", editor), session_id=str(row["session_id"]), workspace=str(scene.folder)
        )
        await session.open(tells=False)
        ways = [asyncio.create_task(editor.until(text)) for text in ("done", NOT_TAKEN)]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)
        await session.close()
    return NOT_TAKEN not in editor.text


async def by_menu(scene: Scene, row: Row, choice: Choice, width: Width = "exact") -> bool:
    """The menu of the terminal chat, by the number of its entry."""
    records = await scene.store.read(row["session_id"])
    asked = next(
        one.event
        for one in records
        if isinstance(one.event, e.ApprovalAsked) and one.event.approval_id == row["approval_id"]
    )
    menu = AskMenu(asked)
    line = menu.line_for(str([entry.line for entry in menu.entries].index(_word(choice, width)) + 1))
    answer = read_answer(asked, line or "")
    assert not isinstance(answer, Unclear)
    async with Client(scene.server.url) as client:
        try:
            await send_answer(client, asked, answer)
        except Refused:
            return False
        return True


async def by_command_line(scene: Scene, row: Row, choice: Choice, width: Width = "exact") -> bool:
    """`holdfast approvals answer`, with the beginning of the id."""

    def command() -> int:
        with DirectoryLock(scene.folder) as lock:
            lock.announce(scene.server.url)
            here = {"data_dir": scene.folder}
            assert answer_ask(here, "apr_", choice, reason="") != OK, "it names no approval"
            return answer_ask(here, row["approval_id"][:12], _word(choice, width), reason="")

    return await asyncio.to_thread(command) == OK


def _word(choice: Choice, width: Width) -> str:
    return choice if width == "exact" else f"{choice} {width}"


async def by_card(scene: Scene, row: Row, choice: Choice, _: Width = "exact") -> bool:
    """Press a button; the card loses its buttons, or the person reads why nothing happened."""
    del row
    return await _answered_in_chat(scene.chat, lambda: scene.chat.press(CHOICES[choice]))


async def by_chat_command(scene: Scene, row: Row, choice: Choice, _: Width = "exact") -> bool:
    """`/approve` and `/deny`; where one card waits, it needs no id."""
    approval_id = row["approval_id"]
    texts: Mapping[Choice, str] = {
        "once": f"/approve {approval_id}",
        "session": f"/approve {approval_id} Session",
        "always": "/approve always",
        "deny": "/deny",
    }
    return await _answered_in_chat(scene.chat, lambda: scene.chat.say(texts[choice]))


async def _answered_in_chat(chat: Chat, act: Callable[[], None]) -> bool:
    before = len(_refusals(chat))
    act()
    await chat.changed.until(lambda: not chat.buttons() or len(_refusals(chat)) > before)
    return len(_refusals(chat)) == before


def _refusals(chat: Chat) -> list[str]:
    return [text for text in chat.replies() if NOT_OFFERED in text]


FACES: Mapping[str, Face] = {
    "native": Face(by_native, widths=get_args(Width)),
    "hermes": Face(by_hermes, widths=get_args(Width)),
    "AG-UI": Face(by_ag_ui),
    "MCP": Face(by_mcp),
    "ACP": Face(by_acp),
    "terminal": Face(by_menu, widths=get_args(Width)),
    "command line": Face(by_command_line, widths=get_args(Width)),
    "chat command": Face(by_chat_command),
    "Telegram": Face(by_card),
    "Slack": Face(by_card, SlackChat),
    "Discord": Face(by_card, DiscordChat),
}
