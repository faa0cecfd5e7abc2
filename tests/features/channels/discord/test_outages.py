"""A hundred direct chats of which one is at its limit, and a card whose change gets no answer."""

from agent.world import Effect, asks_about, process
from fakes.discord import Accept, DiscordLimit, FakeDiscord, ResetConnection
from features.channels.discord.lab import LOG, ME, channel, said, say, texts, until
from features.channels.lab import acts, echo
from holdfast import events as e
from holdfast.chaos import ChaosServer
from runner.steered_clock import SteeredClock, settle


async def test_a_hundred_chats_have_their_answers_while_one_is_at_its_limit() -> None:
    """P10: the chat that waits for an hour holds up nobody, and keeps its own order."""
    clock, people = SteeredClock(), range(1_000, 1_100)
    limited = people[0]
    async with FakeDiscord() as discord, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        place = discord.world.direct(limited).channel_id
        discord.scripts.add(f"createMessage@{place}", [DiscordLimit(3_600)])
        allowed = frozenset(str(one) for one in people)
        async with channel(world, discord, clock=clock, allow=allowed):
            say(discord, "first", limited)
            await world.until(LOG, e.DeliveryPostponed)
            say(discord, "second", limited)
            for one in people[1:]:
                say(discord, f"hello from {one}", one)
            for one in people[1:]:
                await said(discord, f"re: hello from {one}", user=one)
            assert texts(discord, limited) == []
            await settle()
            clock.advance(3_601)
            await said(discord, "re: first", "re: second", user=limited)


async def test_a_change_of_a_card_whose_answer_is_lost_is_made_again_at_once() -> None:
    """P10: the chat doesn't wait; no time passes in this test."""
    done: list[str] = []
    clock = SteeredClock()
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"), clock=clock)
        async with acting as world, channel(world, discord, clock=clock):
            discord.scripts.add("editMessage", [Accept(), ResetConnection()])
            say(discord, "do it")
            chat = discord.world.direct(ME)
            await until(discord, lambda: "Allow once" in discord.world.buttons(chat))
            discord.world.click(chat, *discord.world.buttons(chat)["Allow once"])
            await until(discord, lambda: "result: act done" in texts(discord))
            assert len(discord.world.done("editMessage")) == 2
    assert done == ["act {}"]
