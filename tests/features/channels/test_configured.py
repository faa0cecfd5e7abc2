"""A channel from its settings to the chat, through a whole server."""

from pathlib import Path

import aiohttp
import pytest

from config.given import loaded
from fakes.slack import Accept, FakeSlack, ResetConnection
from fakes.telegram import FakeTelegram
from holdfast.chaos import ChaosServer, Say
from holdfast.client import Refused
from holdfast.client.client import Client
from holdfast.config.sources import BadConfiguration
from holdfast.features.channels.cli.actions import ChannelCalls
from holdfast.features.channels.configured import channel_options, configured_channel
from holdfast.host.assembly import open_application
from holdfast.host.http_server import serving
from holdfast.host.known_secrets import known_secrets
from host.chat_settings import TARGET

ME = 42
CHANNEL = """
[[channels]]
name = "tg"
kind = "telegram"
token = "{token}"
base_url = "{url}"
home = "42"
"""
SLACK = """
[[channels]]
name = "sl"
kind = "slack"
token = "{token}"
app_token = "{app_token}"
base_url = "{url}"
"""


async def test_a_person_pairs_talks_and_is_revoked_over_http(tmp_path: Path) -> None:
    """P11, P14: by the settings, the routes and the client, as `holdfast channels` uses them."""
    async with FakeTelegram() as telegram, ChaosServer([Say("hello")], [Say("the report")]) as chaos:
        world = telegram.world
        text = f"[server]\ndata_dir = '{tmp_path}'\n[agent]\nworkspace = '{tmp_path}'\n"
        text += TARGET.format(url=chaos.base_url) + CHANNEL.format(token=telegram.token, url=telegram.url)
        settings = loaded(text).settings
        assert telegram.token in list(known_secrets(settings))
        async with (
            open_application(settings, keys=None, config=None) as app,
            serving(app) as url,
            Client(url) as client,
        ):
            await world.changed.until(lambda: bool(world.commands))
            code = (await ChannelCalls(client).pair("tg")).code
            world.say(ME, code)
            await world.changed.until(lambda: len(world.chat(ME).texts()) == 1)
            world.say(ME, "hi")
            await world.changed.until(lambda: len(world.chat(ME).texts()) == 2)
            (shown,) = await ChannelCalls(client).list()
            assert (shown.state, shown.account, shown.kind) == ("connected", "holdfast_bot", "telegram")
            assert shown.home == "42"
            assert [(user.user, user.role) for user in shown.users] == [(str(ME), "approver")]
            sent = await ChannelCalls(client).test("tg", str(ME))
            await world.changed.until(lambda: len(world.chat(ME).texts()) == 3)
            await ChannelCalls(client).allow("tg", "77", role="approver")
            await ChannelCalls(client).revoke("tg", "77")
            async with aiohttp.ClientSession(url) as http:
                wanted = {"name": "daily", "prompt": "report", "every": "1d", "deliver": ["telegram"]}
                made = await (await http.post("/api/triggers", json=wanted)).json()
                assert made["deliver"] == ["tg"], "its home chat, wherever that is when a run ends"
                job = {
                    "name": "j",
                    "prompt": "p",
                    "schedule": "every 1d",
                    "deliver": "telegram,signal,origin",
                }
                made_job = (await (await http.post("/api/jobs", json=job)).json())["job"]
                assert made_job["deliver"] == "tg"
                assert len(made_job["differs"]) == 2
                assert (await http.post(f"/api/triggers/{made['id']}/run", json={})).status < 300
                stranger = await http.post("/api/triggers", json=wanted | {"deliver": ["tg:1"]})
                assert stranger.status == 400
            await world.changed.until(lambda: len(world.chat(ME).texts()) == 4)
            log = await ChannelCalls(client).log("tg")
            assert any(one.delivery == sent.delivery for one in log)
            assert code not in str(log)
            with pytest.raises(Refused):
                await ChannelCalls(client).pair("other")
            with pytest.raises(Refused):
                await ChannelCalls(client).allow("tg", "@name")
        assert world.chat(ME).texts()[1] == "hello"
        assert world.chat(ME).texts()[3] == "From daily:\n\nthe report"


async def test_a_person_pairs_and_talks_in_slack_and_a_lost_answer_is_found(tmp_path: Path) -> None:
    """P11, P14: by the settings; both tokens are secrets, and the log says what was found."""
    async with FakeSlack() as slack, ChaosServer([Say("hello")]) as chaos:
        world = slack.world
        text = f"[server]\ndata_dir = '{tmp_path}'\n[agent]\nworkspace = '{tmp_path}'\n"
        text += TARGET.format(url=chaos.base_url)
        text += SLACK.format(token=slack.token, app_token=slack.app_token, url=slack.api_url)
        settings = loaded(text).settings
        assert {slack.token, slack.app_token} <= set(known_secrets(settings))
        async with (
            open_application(settings, keys=None, config=None) as app,
            serving(app) as url,
            Client(url) as client,
        ):
            await world.changed.until(lambda: bool(slack.sockets.open))
            world.say("D42", (await ChannelCalls(client).pair("sl")).code)
            await world.changed.until(lambda: len(world.conversation("D42").texts()) == 1)
            slack.scripts.add("chat.postMessage", [Accept(), ResetConnection()])
            world.say("D42", "hi")
            await world.changed.until(lambda: bool(world.done("conversations.history")))
            (shown,) = await ChannelCalls(client).list()
            assert (shown.state, shown.account, shown.kind) == ("connected", "holdfast", "slack")
            assert [(user.user, user.name) for user in shown.users] == [("U42", "User 42")]
            await ChannelCalls(client).allow("sl", "U77")
            with pytest.raises(Refused):
                await ChannelCalls(client).allow("sl", "77")
        assert world.conversation("D42").texts()[1:] == ["hello"]


def test_the_signing_secret_is_a_secret_and_needs_no_other_token() -> None:
    """P11: it is in no log, and only the route that checks signatures has it."""
    text = "[[channels]]\nname='sl'\nkind='slack'\ntoken='xoxb-1'\nsigning_secret='s3cret-of-slack'\n"
    text += "webhook_url='https://agent.example'\n"
    settings = loaded(text).settings
    assert "s3cret-of-slack" in list(known_secrets(settings))
    shown = configured_channel(channel_options(settings.channels[0]))
    assert (shown.signing_secret, shown.hook_secret) == ("s3cret-of-slack", "")
    assert "s3cret" not in repr(shown) + repr(settings)
    assert channel_options(settings.channels[0]).hook_url == "https://agent.example/hooks/channels/sl"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[channels]]\nname='a b'\nkind='telegram'\ntoken='x'\n", "1 to 32 letters"),
        ("[[channels]]\nname='a'\nkind='telegram'\ntoken=''\n", "must not be empty"),
        ("[[channels]]\nname='a'\nkind='icq'\ntoken='x'\n", "must be one of bridge, discord, email, matrix"),
        ("[[channels]]\nname='a'\nkind='slack'\ntoken='x'\n", "Socket Mode"),
        ("[[channels]]\nname='a'\nkind='slack'\ntoken='x'\nsigning_secret='y'\n", "webhook_url and signing"),
        (
            "[[channels]]\nname='a'\nkind='slack'\ntoken='x'\nwebhook_url='https://a.example'\n",
            "signing_secret.*while webhook_url is set",
        ),
        ("[[channels]]\nname='a'\nkind='telegram'\ntoken='x'\napp_token='y'\n", "only with Slack"),
        ("[[channels]]\nname='a'\nkind='discord'\ntoken='x'\nsigning_secret='y'\n", "only with Slack"),
        ("[[channels]]\nname='a'\nkind='slack'\ntoken='x'\napp_token='y'\nallow=['42']\n", "U012AB3CD"),
        ("[[channels]]\nname='a'\nkind='telegram'\ntoken='x'\nallow=['@me']\n", "numeric id"),
        (
            "[[channels]]\nname='a'\nkind='telegram'\ntoken='x'\n[[channels]]\nname='b'\nkind='telegram'\ntoken='x'",
            "is also that of the channel a",
        ),
    ],
)
def test_a_channel_that_cannot_work_is_an_error_of_the_settings(text: str, why: str) -> None:
    with pytest.raises(BadConfiguration, match=why):
        loaded(text)
