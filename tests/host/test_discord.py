"""A Discord channel from its settings to the chat, through a whole server."""

from pathlib import Path

from config.given import loaded
from fakes.discord import FakeDiscord
from holdfast.chaos import ChaosServer, Say
from holdfast.client.client import Client
from holdfast.features.channels.cli.actions import ChannelCalls
from holdfast.host.assembly import open_application
from holdfast.host.http_server import serving
from holdfast.host.known_secrets import known_secrets
from host.chat_settings import TARGET

ME = 42
CHANNEL = """
[[channels]]
name = "dc"
kind = "discord"
token = "{token}"
base_url = "{url}"
"""


async def test_a_person_pairs_and_talks_on_discord(tmp_path: Path) -> None:
    """P11, P14: by the settings, the routes and the client, as `holdfast channels` uses them."""
    async with FakeDiscord() as discord, ChaosServer([Say("hello")]) as chaos:
        world, chat = discord.world, discord.world.direct(ME)
        text = f"[server]\ndata_dir = '{tmp_path}'\n[agent]\nworkspace = '{tmp_path}'\n"
        text += TARGET.format(url=chaos.base_url) + CHANNEL.format(token=discord.token, url=discord.url)
        settings = loaded(text).settings
        assert discord.token in list(known_secrets(settings))
        async with (
            open_application(settings, keys=None, config=None) as app,
            serving(app) as url,
            Client(url) as client,
        ):
            await world.changed.until(lambda: bool(world.commands))
            world.say(chat, (await ChannelCalls(client).pair("dc")).code)
            await world.changed.until(lambda: len(chat.texts()) == 1)
            world.say(chat, "hi")
            await world.changed.until(lambda: len(chat.texts()) == 2)
            (shown,) = await ChannelCalls(client).list()
            assert (shown.state, shown.account, shown.kind) == ("connected", "holdfast", "discord")
            assert [(user.user, user.role) for user in shown.users] == [(str(ME), "approver")]
            await ChannelCalls(client).test("dc", chat.channel_id)
            await world.changed.until(lambda: len(chat.texts()) == 3)
            log = await ChannelCalls(client).log("dc")
            assert discord.token not in str(log)
        assert chat.texts()[1] == "hello"
