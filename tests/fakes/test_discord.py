"""The fake Discord against a real bot library, which says what Discord's answers and events look like."""

import asyncio
import gc
import io
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import discord
import pytest
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import Route
from yarl import URL

from fakes.discord import (
    Accept,
    Channel,
    CloseSocket,
    DiscordError,
    DiscordLimit,
    Double,
    FakeDiscord,
    ResetConnection,
    Reverse,
)
from holdfast.chaos import BadScript
from holdfast.chaos.gates import Notifier

ME = 42


class Bot(discord.Client):
    """A bot of the library, which remembers what it was told."""

    def __init__(self, intents: discord.Intents, changed: Notifier) -> None:
        # The library can't know which guild is the last, and would wait a while for more before it is ready.
        super().__init__(intents=intents, max_messages=None, guild_ready_timeout=0)
        self.changed = changed
        self.tree = discord.app_commands.CommandTree(self)
        self.heard: list[str] = []
        self.pressed: list[str] = []
        self.is_up = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Identify at once; the library would pause, because Discord allows one in five seconds."""

    async def on_socket_event_type(self, _: str) -> None:
        self.changed.notify()

    async def on_ready(self) -> None:
        self.is_up.set()

    async def on_message(self, message: discord.Message) -> None:
        if self.user is None or message.author.id != self.user.id:
            self.heard.append(message.content)
            self.changed.notify()

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.pressed.append(str((interaction.data or {}).get("custom_id")))
        await interaction.response.defer()
        await interaction.followup.send("got it", ephemeral=True)


def intents(*, content: bool = True) -> discord.Intents:
    wanted = discord.Intents.none()
    wanted.guilds = wanted.guild_messages = wanted.dm_messages = True
    wanted.message_content = content
    return wanted


@asynccontextmanager
async def at(
    fake: FakeDiscord, monkeypatch: pytest.MonkeyPatch, wanted: discord.Intents
) -> AsyncGenerator[Bot]:
    """A bot of the library that is connected to the fake; these two are how one points it elsewhere."""
    monkeypatch.setattr(Route, "BASE", fake.api_url)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", URL(fake.gateway_url))
    bot = Bot(wanted, fake.world.changed)
    bot.running = running = asyncio.create_task(bot.start(fake.token))
    ready = asyncio.create_task(bot.is_up.wait())
    await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if running.done():
            await running
        # A test ends with a bot that is connected or has ended: one that is closed while it connects leaves
        # its socket open.
        yield bot
    finally:
        ready.cancel()
        await bot.close()
        await asyncio.wait({running, ready})
        # Their next beat would come when this loop is closed, in the middle of another test.
        for beating in [one for one in threading.enumerate() if isinstance(one, KeepAliveHandler)]:
            beating.stop()
            await asyncio.to_thread(beating.join)
        gc.collect()  # a socket that was left open fails this test, and no later one


async def direct(bot: Bot, chat: Channel) -> discord.DMChannel:
    """A person's chat, as the library knows it."""
    found = await bot.fetch_channel(int(chat.channel_id))
    assert isinstance(found, discord.DMChannel)
    return found


async def test_a_real_bot_library_understands_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeDiscord() as fake, at(fake, monkeypatch, intents()) as bot:
        world, chat = fake.world, fake.world.direct(ME)
        assert bot.user is not None
        assert bot.user.name == "holdfast"
        assert (await bot.application_info()).flags.gateway_message_content_limited
        place = await direct(bot, chat)
        person = await place.send("hello")
        assert chat.texts() == ["hello"]
        assert person.content == "hello"
        fetched = await place.fetch_message(person.id)
        assert fetched.author.bot
        await person.edit(content="hello!")
        assert chat.texts() == ["hello!"]
        await place.typing()
        assert chat.typing == 1
        sent = await place.send(file=discord.File(io.BytesIO(b"report"), "report.txt"))
        assert (await sent.attachments[0].read()) == b"report"
        world.say(chat, "one")
        world.say(chat, "two")
        history = [one.content async for one in place.history(after=sent, oldest_first=True)]
        assert history == ["one", "two"]
        await sent.delete()
        assert list(chat.texts()) == ["hello!"]
        with pytest.raises(discord.NotFound):
            await place.fetch_message(sent.id)
        await world.changed.until(lambda: bot.heard == ["one", "two"])

        @bot.tree.command(name="status", description="What the agent is doing")
        async def status(interaction: discord.Interaction) -> None:
            await interaction.response.send_message("nothing", ephemeral=True)

        del status
        await bot.tree.sync()
        assert [one["name"] for one in world.commands] == ["status"]


async def test_clicks_and_commands_are_events_that_are_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeDiscord() as fake, at(fake, monkeypatch, intents()) as bot:
        world, chat = fake.world, fake.world.direct(ME)
        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Allow", custom_id="a:1"))
        place = await direct(bot, chat)
        card = await place.send("allow?", view=view)
        assert world.buttons(chat) == {"Allow": (str(card.id), "a:1")}
        click = world.click(chat, str(card.id), "a:1")
        await world.changed.until(lambda: click.texts == ["got it"])
        assert click.answer == 6
        assert chat.whispers == [(str(ME), "got it")]
        assert bot.pressed == ["a:1"]


async def test_what_discord_keeps_from_bots_is_kept_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Message Content intent, words in a guild that don't mention the bot are empty."""
    async with FakeDiscord() as fake:
        general = fake.world.channel("general")
        thread = fake.world.thread(general, "bugs")
        async with at(fake, monkeypatch, intents(content=False)) as bot:
            await fake.world.changed.until(lambda: [guild.name for guild in bot.guilds] == ["The guild"])
            assert [one.name for one in bot.guilds[0].threads] == ["bugs"]
            fake.world.say(general, "not for bots", user=ME)
            fake.world.say(thread, f"{fake.world.mention} hello", user=ME)
            await fake.world.changed.until(lambda: len(bot.heard) == 2)
            assert bot.heard == ["", f"{fake.world.mention} hello"]
        fake.world.message_content = False
        with pytest.raises(discord.PrivilegedIntentsRequired):
            async with at(fake, monkeypatch, intents()):
                pass


async def test_a_dropped_socket_is_resumed_and_a_forgotten_session_loses_what_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeDiscord() as fake, at(fake, monkeypatch, intents()) as bot:
        world, chat = fake.world, fake.world.direct(ME)
        world.say(chat, "one")
        await world.changed.until(lambda: bot.heard == ["one"])
        world.sessions.drop()
        world.say(chat, "while away")
        await world.changed.until(lambda: bot.heard == ["one", "while away"])
        assert [one["op"] for one in fake.gateway.heard if one["op"] != 1] == [2, 6]
        world.sessions.ask_to_reconnect()
        await world.changed.until(lambda: [one["op"] for one in fake.gateway.heard].count(6) == 2)
        fake.scripts.add("MESSAGE_CREATE", [Double()], [Reverse()], [ResetConnection()])
        for text in ("twice", "late", "early"):
            world.say(chat, text)
        await world.changed.until(lambda: len(bot.heard) == 6)
        assert bot.heard[2:] == ["twice", "twice", "early", "late"]
        bot.is_up.clear()
        world.sessions.forget()
        world.say(chat, "lost")
        assert world.sessions.lost == ["MESSAGE_CREATE"]
        await bot.is_up.wait()
        assert [one["op"] for one in fake.gateway.heard].count(2) == 2


async def test_it_refuses_what_discord_refuses_in_discords_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeDiscord() as fake, at(fake, monkeypatch, intents()) as bot:
        world, chat = fake.world, fake.world.direct(ME)
        place = await direct(bot, chat)
        for content, code in (("x" * 2001, 50035), (" ", 50006)):
            with pytest.raises(discord.HTTPException) as refused:
                await place.send(content)
            assert refused.value.code == code
        with pytest.raises(discord.NotFound) as unknown:
            await bot.fetch_channel(1)
        assert unknown.value.code == 10003
        said = world.say(chat, "mine")
        with pytest.raises(discord.Forbidden):
            await place.get_partial_message(int(said["id"])).edit(content="yours")
        chat.refusal = (403, 50007, "Cannot send messages to this user")
        with pytest.raises(discord.Forbidden) as closed:
            await place.send("hello")
        assert closed.value.code == 50007
        assert [call.outcome for call in world.calls][-1] == "Cannot send messages to this user"
        fake.scripts.add("identify", [CloseSocket(4004)])
        world.sessions.forget()
        assert bot.running is not None
        with pytest.raises(discord.ConnectionClosed) as ended:
            await bot.running
        assert ended.value.code == 4004
        other = Bot(intents(), world.changed)
        with pytest.raises(discord.LoginFailure):
            await other.start("not the token")
        await other.close()


async def test_faults_come_by_script_and_a_nonce_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeDiscord() as fake, at(fake, monkeypatch, intents()) as bot:
        world, chat = fake.world, fake.world.direct(ME)
        place = await direct(bot, chat)
        fake.scripts.add("createMessage", [DiscordLimit(0.01)], [DiscordLimit(0.01, "global")], [Accept()])
        fake.scripts.add(
            f"createMessage@{chat.channel_id}", [DiscordError("Missing Permissions", 403, 50013)]
        )
        with pytest.raises(discord.Forbidden, match="Missing Permissions"):
            await place.send("not now")
        await place.send("first")
        fields = {"content": "once", "nonce": "n1", "enforce_nonce": True}
        path = Route("POST", "/channels/{channel_id}/messages", channel_id=place.id)
        sent = [await bot.http.request(path, json=fields) for _ in range(2)]
        assert sent[0]["id"] == sent[1]["id"]
        assert sent[0]["nonce"] == "n1"
        world.forget_nonces()
        again = await bot.http.request(path, json=fields)
        assert again["id"] != sent[0]["id"]
        assert chat.texts() == ["first", "once", "once"]
        listed = await bot.http.logs_from(place.id, 2)
        assert [one.get("nonce") for one in listed] == [None, None]
        limited = [one.outcome for one in world.calls if one.name == "createMessage"][1:3]
        assert limited == ["You are being rate limited."] * 2


async def test_a_script_as_text_names_what_it_does_not_understand() -> None:
    fake = FakeDiscord()
    fake.scripts.add_text("# a comment\ncreateMessage: retry-after 2 | accept; reset\nidentify: close 4014\n")
    assert fake.scripts.next("createMessage", "1") == [DiscordLimit(2)]
    assert fake.scripts.next("createmessage", "1") == [Accept(), ResetConnection()]
    assert fake.scripts.next("createMessage", "1") == (Accept(),)
    assert fake.scripts.next("identify", "") == [CloseSocket(4014)]
    with pytest.raises(BadScript, match="did you mean 'accept'"):
        fake.scripts.add_text("createMessage: acept")
    with pytest.raises(BadScript, match="begins with a method"):
        fake.scripts.add_text("accept")
