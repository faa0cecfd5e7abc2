"""What the doctor finds out about a Discord bot."""

from fakes.discord import FakeDiscord
from holdfast.chaos import closed_port
from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Secret
from holdfast.config.settings import Settings
from holdfast.features.channels.cli.doctor import ask_platforms


async def test_a_bot_without_its_token_or_its_intent_is_a_fault_with_what_to_do() -> None:
    async with FakeDiscord() as discord:
        discord.world.message_content = False
        token, url = Secret(discord.token), discord.url
        right = ChannelSettings(name="dc", kind="discord", token=token, base_url=url)
        wrong = ChannelSettings(name="old", kind="discord", token=Secret("x"), base_url=url)
        blind = ChannelSettings(name="all", kind="discord", token=token, base_url=url, groups="all")
        found = await ask_platforms(Settings(channels=(right, wrong, blind)))
        assert [one.state for one in found] == ["ok", "fault", "fault"]
        assert "holdfast" in found[0].text
        assert "`token`" in found[1].advice
        assert "Message Content" in found[2].advice
        discord.world.message_content = True
        assert [one.state for one in await ask_platforms(Settings(channels=(blind,)))] == ["ok"]
    with closed_port() as port:
        away = ChannelSettings(
            name="dc", kind="discord", token=Secret("x"), base_url=f"http://127.0.0.1:{port}"
        )
        found = await ask_platforms(Settings(channels=(away,)))
    assert "Can't reach" in found[0].text
