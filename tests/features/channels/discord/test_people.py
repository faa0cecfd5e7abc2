"""Who may talk and who may approve on Discord: nobody by default, and never by position."""

from agent.world import Effect, World, asks_about, process
from fakes.discord import FakeDiscord, Hold, ResetConnection
from features.channels.discord.lab import LOG, ME, channel, say, state_of, texts, until
from features.channels.lab import acts
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say
from holdfast.features.channels.approvals import NOT_YOURS, STALE
from holdfast.features.channels.events import (
    ChannelCodeCreated,
)
from holdfast.features.channels.state import code_digest
from holdfast.features.channels.texts import CODE_WRONG, PAIRED, REFUSAL
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.runner.asks import Answered, ApprovalVerdict

STRANGER = 99
NOBODY = frozenset[str]()


async def code(world: World, text: str = "ABCD2345") -> None:
    made = ChannelCodeCreated(at_ms=1, digest=code_digest(LOG, text), expires_at_ms=2**52)
    await world.store.append(LOG, [made], when=[IfSessionKnown()])


async def card(discord: FakeDiscord, button: str, user: int = ME) -> tuple[str, str]:
    """Wait for a button; its message and data."""
    chat = discord.world.direct(user)
    await until(discord, lambda: button in discord.world.buttons(chat))
    return discord.world.buttons(chat)[button]


async def test_a_stranger_is_refused_once_and_a_code_lets_one_person_in() -> None:
    """P11: nobody gets in without a code, and a code works once."""
    async with FakeDiscord() as discord, ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        async with channel(world, discord, allow=NOBODY, approvers=NOBODY):
            for _ in range(3):
                say(discord, "let me in", STRANGER)
            await until(discord, lambda: len(texts(discord, STRANGER)) == 1)
            refused = discord.world.command(discord.world.direct(STRANGER), "status")
            await until(discord, lambda: refused.answer is not None)
            await code(world)
            say(discord, "ABCD2346", STRANGER)
            await until(discord, lambda: len(texts(discord, STRANGER)) == 2)
            say(discord, "abcd2345", STRANGER)
            await until(discord, lambda: len(texts(discord, STRANGER)) == 3)
            say(discord, "ABCD2345", 98)
            await until(discord, lambda: len(texts(discord, 98)) == 1)
            say(discord, "hi", STRANGER)
            await until(discord, lambda: len(texts(discord, STRANGER)) == 4)
        assert texts(discord, STRANGER) == [REFUSAL, CODE_WRONG, PAIRED, "hello"]
        assert texts(discord, 98) == [REFUSAL]
        assert chaos.seen.requests_seen == 1


async def test_a_button_decides_one_exact_action_by_who_may() -> None:
    """P8: not by the wrong person, not in another chat, not twice; the card says what was decided."""
    done: list[str] = []
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, channel(world, discord, allow=frozenset({"42", "43"})):
            chat = discord.world.direct(ME)
            say(discord, "do it")
            message_id, data = await card(discord, "Allow once")
            assert len(data) <= 100
            for user in (43, STRANGER):
                wrong = discord.world.click(chat, message_id, data, user=user)
                await until(discord, lambda wrong=wrong: wrong.texts == [NOT_YOURS])
            elsewhere = discord.world.direct(43)
            forwarded = discord.world.say(elsewhere, "look")
            moved = discord.world.click(elsewhere, forwarded["id"], data, user=43)
            await until(discord, lambda: bool(moved.texts))
            assert not done
            right = discord.world.click(chat, message_id, data)
            again = discord.world.click(chat, message_id, data)
            await until(discord, lambda: again.texts == [STALE])
            await until(discord, lambda: "result: act done" in texts(discord))
            assert (right.answer, right.texts) == (6, [])
        assert done == ["act {}"]
        assert "✓ Allowed once by User 42" in texts(discord)[0]
        assert not discord.world.buttons(chat)


async def test_a_card_shows_what_was_decided_elsewhere_and_a_late_click_changes_nothing() -> None:
    """P8: the page decides; the card in the chat says so."""
    done: list[str] = []
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, channel(world, discord):
            chat = discord.world.direct(ME)
            say(discord, "do it")
            message_id, data = await card(discord, "Allow once")
            (session_id,) = (await state_of(world)).chats
            (asked,) = [
                one.event for one in await world.log(session_id) if isinstance(one.event, e.ApprovalAsked)
            ]
            denied = ApprovalVerdict("deny", by="page")
            assert await world.inbox.answer(asked.approval_id, denied) == Answered(asked.approval_id)
            await until(discord, lambda: not discord.world.buttons(chat))
            late = discord.world.click(chat, message_id, data)
            await until(discord, lambda: late.texts == [STALE])
            await until(discord, lambda: len(texts(discord)) == 2)
        assert not done
        assert "✗ Denied by page" in texts(discord)[0]


async def test_a_click_counts_also_if_discord_never_hears_the_answer() -> None:
    """P8: the acknowledgement is lost; what was decided is on the log and on the card."""
    done: list[str] = []
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, channel(world, discord):
            discord.scripts.add("answerInteraction", [ResetConnection()])
            say(discord, "do it")
            message_id, data = await card(discord, "Allow once")
            discord.world.click(discord.world.direct(ME), message_id, data)
            await until(discord, lambda: "result: act done" in texts(discord))
            await until(discord, lambda: "✓ Allowed once by User 42" in texts(discord)[0])
        assert done == ["act {}"]


async def test_a_click_that_takes_long_is_acknowledged_in_time_and_answered_afterwards() -> None:
    """P3: Discord hears within its three seconds that we have it; the words come when they are known."""
    gate = Gate()
    done: list[str] = []
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, channel(world, discord, allow=frozenset({"42", "43"})):
            say(discord, "do it")
            message_id, data = await card(discord, "Allow once")
            chat = discord.world.direct(ME)
            discord.scripts.add("download", [Hold(gate)])
            discord.world.send_file(chat, b"a file that takes long")
            await gate.reached()
            click = discord.world.click(chat, message_id, data, user=43)
            await until(discord, lambda: click.answer == 6)
            gate.open()
            await until(discord, lambda: click.texts == [NOT_YOURS])
        assert not done


async def test_a_question_is_answered_by_a_button_or_by_what_is_written_next() -> None:
    async with FakeDiscord() as discord, ChaosServer(choose=acts) as chaos, process(chaos) as world:
        async with channel(world, discord):
            chat = discord.world.direct(ME)
            say(discord, "a colour")
            message_id, data = await card(discord, "blue")
            discord.world.click(chat, message_id, data)
            await until(discord, lambda: "result: blue" in texts(discord))
            discord.world.command(chat, "new")
            await until(discord, lambda: "Started a new conversation." in texts(discord))
            say(discord, "another colour")
            await card(discord, "red")
            say(discord, "green, please")
            await until(discord, lambda: "result: green, please" in texts(discord))
        cards = [text for text in texts(discord) if text.startswith("which?")]
        assert [one.splitlines()[-1] for one in cards] == [
            "✓ Answered by User 42: blue",
            "✓ Answered by User 42: green, please",
        ]
