"""Settings of a channel that apply to its conversations: the approval mode, and no network for commands."""

from agent.world import World, process
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, channel, options_for, said, state_of, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.config.channels import ChannelSettings
from holdfast.config.fields import Secret
from holdfast.features.channels.configured import channel_options
from holdfast.folds.session import Session
from holdfast.runner.inbox import IncomingMessage
from holdfast.values import RunSettings


async def session_of(world: World) -> Session:
    (session_id,) = (await state_of(world)).chats
    return (await world.supervisor.view(session_id)).session


async def test_a_conversation_has_the_mode_of_its_channel_until_a_person_chooses_another() -> None:
    """P13: the mode is on the log before the first message can do anything."""
    async with FakeTelegram() as telegram, ChaosServer(*[[Say("ok")]] * 4) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram, approvals="unattended")):
            telegram.world.say(ME, "one")
            await said(telegram, "ok")
            session = await session_of(world)
            assert (session.approval_mode, session.source) == ("unattended", "telegram")
            (session_id,) = (await state_of(world)).chats
            kinds = [type(one.event) for one in await world.log(session_id)]
            assert kinds.index(e.SessionModeSet) < kinds.index(e.MessageAccepted)
        async with channel(world, options_for(telegram, approvals="ask")):
            telegram.world.say(ME, "two")
            await said(telegram, "ok", "ok")
            assert (await session_of(world)).approval_mode == "ask"
            chosen = e.SessionModeSet(at_ms=1, mode="allow-workspace", by="laptop")
            await world.store.append(session_id, [chosen])
            telegram.world.say(ME, "three")
            await said(telegram, "ok", "ok", "ok")
            assert (await session_of(world)).approval_mode == "workspace"
        modes = [one.event for one in await world.log(session_id) if isinstance(one.event, e.SessionModeSet)]
        assert [one.by for one in modes] == ["channel tg", "channel tg", "laptop"]


async def test_a_channel_sets_its_mode_again_after_a_run_elsewhere() -> None:
    """P13: a message from the page, in another workspace, ends what the channel allows in its own."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(*[[Say("ok")]] * 3) as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram, approvals="workspace")),
    ):
        telegram.world.say(ME, "one")
        await said(telegram, "ok")
        assert (await session_of(world)).approval_mode == "workspace"
        (session_id,) = (await state_of(world)).chats
        settings = RunSettings(workspace="/elsewhere")
        await world.inbox.send(session_id, IncomingMessage(text="two", settings=settings))
        await world.until(session_id, e.RunEnded, times=2)
        assert (await session_of(world)).approval_mode == ""
        telegram.world.say(ME, "three")
        await said(telegram, "ok", "ok")
        assert (await session_of(world)).approval_mode == "workspace"


async def test_a_channel_without_a_mode_sets_none() -> None:
    async with FakeTelegram() as telegram, ChaosServer([Say("ok")]) as chaos, process(chaos) as world:
        async with channel(world, options_for(telegram)):
            telegram.world.say(ME, "one")
            await said(telegram, "ok")
        session = await session_of(world)
        assert (session.approval_mode, session.mode_set_by) == ("", "")


def test_the_settings_of_a_channel_reach_its_runs() -> None:
    settings = ChannelSettings(
        name="tg",
        kind="telegram",
        token=Secret("1:x"),
        target="small",
        instructions="be brief",
        approvals="unattended",
        sandbox="offline",
        tools=("read_file",),
        budget_usd=2.5,
        webhook_url="https://bot.example.com",
    )
    options = channel_options(settings)
    run = options.run_settings
    assert (run.model, run.instructions, run.tools, run.offline) == (
        "small",
        "be brief",
        ("read_file",),
        True,
    )
    assert run.budget is not None
    assert run.budget.cost_usd == 2.5
    assert (options.approvals, options.webhook_url) == ("unattended", "https://bot.example.com")


async def test_a_chat_sets_stricter_modes_and_an_approver_those_up_to_the_maximum() -> None:
    """P8, P13: a message that only talks about a mode changes nothing."""
    other = ME + 1
    people = frozenset({str(ME), str(other)})
    async with (
        FakeTelegram() as telegram,
        ChaosServer(*[[Say("ok")]] * 2) as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram, allow=people)),
    ):
        telegram.world.say(ME, "switch to the mode workspace")
        await said(telegram, "ok")
        assert (await session_of(world)).approval_mode == ""
        for text, mode in (
            ("/mode plan", "plan"),
            ("/mode workspace", "plan"),
            ("/mode edits", "plan"),
            ("/mode yolo", "plan"),
            ("/mode", "plan"),
            ("/mode ask", "ask"),
        ):
            replies = len(telegram.world.chat(ME).texts())
            telegram.world.say(ME, text)
            await until(telegram, lambda replies=replies: len(telegram.world.chat(ME).texts()) > replies)
            assert (await session_of(world)).approval_mode == mode, text
        assert (await session_of(world)).mode_set_by != ""
        telegram.world.say(other, "hi")
        await until(telegram, lambda: bool(telegram.world.chat(other).texts()))
        telegram.world.say(other, "/mode ask")
        await until(telegram, lambda: len(telegram.world.chat(other).texts()) > 1)
        assert telegram.world.chat(other).texts()[-1] == "You can't set ask here. You can set: plan."
