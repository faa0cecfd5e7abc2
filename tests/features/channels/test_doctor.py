"""What the doctor finds out about chat platforms."""

from contextlib import AsyncExitStack

from agent.world import process
from fakes.slack import FakeSlack
from fakes.telegram import FakeTelegram
from features.channels.slack.slack_lab import LOG, fronted
from holdfast.chaos import ChaosServer, closed_port
from holdfast.cli.doctor.findings import DoctorFinding
from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Secret
from holdfast.config.settings import Settings
from holdfast.features.channels.cli.doctor import ask_no_platform, ask_platforms
from holdfast.features.channels.events import (
    ChannelConnected,
)


async def test_a_channel_whose_token_is_wrong_is_a_fault_with_what_to_do() -> None:
    async with FakeTelegram() as telegram:
        url = telegram.url
        right = ChannelSettings(name="tg", kind="telegram", token=Secret(telegram.token), base_url=url)
        wrong = ChannelSettings(name="old", kind="telegram", token=Secret("1:x"), base_url=url)
        found = await ask_platforms(Settings(channels=(right, wrong)))
    assert [one.state for one in found] == ["ok", "fault"]
    assert "@holdfast_bot" in found[0].text
    assert "token" in found[1].advice
    with closed_port() as port:
        away = ChannelSettings(
            name="tg", kind="telegram", token=Secret("1:x"), base_url=f"http://127.0.0.1:{port}"
        )
        found = await ask_platforms(Settings(channels=(away,)))
    assert "Can't reach" in found[0].text
    assert [one.text for one in await ask_no_platform(Settings(channels=(away,)))] == ["not checked"]


async def test_both_tokens_of_a_slack_app_are_tried() -> None:
    async with FakeSlack() as slack:
        tokens = ((slack.token, slack.app_token), ("xoxb-x", slack.app_token), (slack.token, "xapp-x"))
        channels = tuple(
            ChannelSettings(
                name=f"sl{at}",
                kind="slack",
                token=Secret(token),
                app_token=Secret(app_token),
                base_url=slack.api_url,
            )
            for at, (token, app_token) in enumerate(tokens)
        )
        found = await ask_platforms(Settings(channels=channels))
        assert not slack.sockets.open
        swapped = ChannelSettings(
            name="sl",
            kind="slack",
            token=Secret(slack.app_token),
            app_token=Secret(slack.token),
            base_url=slack.api_url,
        )
        (mixed_up,) = await ask_platforms(Settings(channels=(swapped,)))
    assert (mixed_up.state, mixed_up.text) == ("fault", "The two tokens are swapped")
    assert "xoxb-" in mixed_up.advice
    assert [one.state for one in found] == ["ok", "fault", "fault"]
    assert "@holdfast in Fake" in found[0].text
    assert [one.advice for one in found[1:]] == ["check `token`", "check `app_token`"]


async def test_a_slack_app_that_may_not_send_files_is_a_fault_with_what_to_do() -> None:
    async with FakeSlack() as slack:
        slack.world.scopes = tuple(one for one in slack.world.scopes if one != "files:write")
        app = ChannelSettings(
            name="sl",
            kind="slack",
            token=Secret(slack.token),
            app_token=Secret(slack.app_token),
            base_url=slack.api_url,
        )
        (found,) = await ask_platforms(Settings(channels=(app,)))
    assert found.state == "fault"
    assert "files:write" in found.advice


async def test_a_slack_app_that_is_called_needs_one_token_and_an_address_that_leads_to_the_server() -> None:
    """P3: that nothing could arrive is said with what to do; no socket is asked for."""
    async with (
        FakeSlack() as slack,
        ChaosServer() as chaos,
        process(chaos) as world,
        AsyncExitStack() as stack,
    ):
        front = await stack.enter_async_context(fronted(world, slack))
        await world.until(LOG, ChannelConnected)

        async def asked(secret: str) -> DoctorFinding:
            app = ChannelSettings(
                name="sl",
                kind="slack",
                token=Secret(slack.token),
                signing_secret=Secret(secret),
                webhook_url=front.server.url,
                base_url=slack.api_url,
            )
            (found,) = await ask_platforms(Settings(channels=(app,)))
            return found

        right, wrong = await asked(slack.signing_secret), await asked("another")
        assert not slack.world.done("apps.connections.open")
        await stack.aclose()
        away = await asked(slack.signing_secret)
    assert (right.state, wrong.state, away.state) == ("ok", "note", "note")
    assert f"{front.server.url}/hooks/channels/sl reaches this server" in right.text
    assert "a different signing secret" in wrong.text
    assert "from here" in away.text
    assert "start the server" in away.advice
