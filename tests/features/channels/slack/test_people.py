"""Who may talk and who may approve in Slack: nobody by default, and never by position."""

from agent.world import Effect, World, asks_about, process
from fakes.slack import Accept, FakeSlack, ResetConnection
from features.channels.lab import acts
from features.channels.slack.slack_lab import LOG, ME, MY, Talking, in_both_forms, state_of, talking, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.features.channels.approvals import ELSEWHERE, NOT_YOURS, STALE, UNKNOWN
from holdfast.features.channels.events import (
    ChannelCodeCreated,
)
from holdfast.features.channels.state import code_digest
from holdfast.features.channels.texts import ALREADY_PAIRED, PAIRED, REFUSAL, with_lead
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.runner.asks import Answered, ApprovalVerdict

NOBODY = frozenset[str]()


async def code(world: World, text: str) -> None:
    made = ChannelCodeCreated(at_ms=1, digest=code_digest(LOG, text), expires_at_ms=2**52)
    await world.store.append(LOG, [made], when=[IfSessionKnown()])


@in_both_forms
async def test_a_stranger_is_refused_once_and_a_code_lets_one_person_in(talking: Talking) -> None:
    """P11: nobody gets in without a code, and a code works once."""
    async with FakeSlack() as slack, ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        strange = slack.world.conversation("D99")
        async with talking(world, slack, allow=NOBODY, approvers=NOBODY):
            for _ in range(3):
                slack.world.say("D99", "let me in")
            await until(slack, lambda: len(strange.texts()) == 1)
            await code(world, "ABCD2345")
            slack.world.say("D99", "abcd2345")
            await until(slack, lambda: len(strange.texts()) == 2)
            slack.world.say("D98", "ABCD2345")
            await until(slack, lambda: len(slack.world.conversation("D98").texts()) == 1)
            slack.world.say("D99", "hi")
            await until(slack, lambda: len(strange.texts()) == 3)
            await code(world, "BCDE2345")
            slack.world.say("D99", "BCDE2345")
            await until(slack, lambda: len(strange.texts()) == 4)
        assert strange.texts() == [REFUSAL, with_lead(PAIRED, "!"), "hello", ALREADY_PAIRED]
        assert slack.world.conversation("D98").texts() == [REFUSAL]
        assert [(one.user, one.name, one.role) for one in (await state_of(world)).users.values()] == [
            ("U99", "User 99", "approver")
        ]
        assert chaos.seen.requests_seen == 1


async def card(slack: FakeSlack, label: str, channel: str = MY) -> tuple[str, str]:
    await until(slack, lambda: label in slack.world.buttons(channel))
    return slack.world.buttons(channel)[label]


@in_both_forms
async def test_a_button_approves_exactly_its_action_once_and_only_for_those_who_may(talking: Talking) -> None:
    """P8: by id, in its chat, by an approver; a late, repeated or foreign click approves nothing."""
    done: list[str] = []
    async with FakeSlack() as slack, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        conversation = slack.world.conversation(MY)
        async with acting as world, talking(world, slack, allow=frozenset({ME, "U43"})):
            slack.world.say(MY, "do it")
            ts, value = await card(slack, "Allow once")
            assert len(value.encode()) <= 64
            slack.world.click(MY, ts, value, user="U43")
            slack.world.click(MY, ts, value, user="U99")
            forwarded = {**conversation.messages[ts]}
            slack.world.conversation("D43").messages[ts] = forwarded
            slack.world.click("D43", ts, value, user=ME)
            await until(slack, lambda: len(conversation.ephemeral) == 2)
            await until(slack, lambda: len(slack.world.conversation("D43").ephemeral) == 1)
            assert not done
            assert sorted(conversation.ephemeral) == [("U43", NOT_YOURS), ("U99", NOT_YOURS)]
            assert slack.world.conversation("D43").ephemeral == [(ME, ELSEWHERE)]
            slack.world.click(MY, ts, value)
            slack.world.click(MY, ts, value)
            await until(slack, lambda: len(conversation.ephemeral) == 3)
            await until(slack, lambda: len(conversation.texts()) == 2)
        assert done == ["act {}"]
        shown, answer = conversation.texts()
        assert "✓ Allowed once by User 42" in shown
        assert answer == "result: act done"
        assert not slack.world.buttons(MY)
        assert conversation.ephemeral[2] == (ME, STALE)


async def test_a_card_shows_what_was_decided_elsewhere_even_if_slacks_answer_is_lost() -> None:
    """P8: the page decides; the card in the chat says so."""
    done: list[str] = []
    async with FakeSlack() as slack, ChaosServer(choose=acts) as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        async with acting as world, talking(world, slack):
            slack.world.say(MY, "do it")
            ts, value = await card(slack, "Allow once")
            (session_id,) = (await state_of(world)).chats
            (asked,) = [
                one.event for one in await world.log(session_id) if isinstance(one.event, e.ApprovalAsked)
            ]
            slack.scripts.add("chat.update", [ResetConnection()], [Accept(), ResetConnection()])
            denied = ApprovalVerdict("deny", by="page")
            slack.world.click(MY, ts, "q:x:1" if value == "" else value, user="U99")
            assert await world.inbox.answer(asked.approval_id, denied) == Answered(asked.approval_id)
            await until(slack, lambda: not slack.world.buttons(MY))
            await until(slack, lambda: len(slack.world.conversation(MY).texts()) == 2)
        assert not done
        assert "✗ Denied by page" in slack.world.conversation(MY).texts()[0]


async def test_messages_and_clicks_arrive_in_an_organization_that_has_the_app_in_all_workspaces() -> None:
    """P14: Slack names no workspace of a click then, and the app has none of its own."""
    async with FakeSlack() as slack, ChaosServer(choose=acts) as chaos, process(chaos) as world:
        slack.world.enterprise = "E0ORG"
        async with talking(world, slack):
            slack.world.say(MY, "a colour")
            ts, value = await card(slack, "blue")
            slack.world.click(MY, ts, value)
            await until(slack, lambda: "result: blue" in slack.world.conversation(MY).texts())


@in_both_forms
async def test_a_question_is_answered_by_a_button_or_by_what_is_written_next(talking: Talking) -> None:
    async with FakeSlack() as slack, ChaosServer(choose=acts) as chaos, process(chaos) as world:
        texts = slack.world.conversation(MY).texts
        async with talking(world, slack):
            slack.world.say(MY, "a colour")
            ts, value = await card(slack, "blue")
            slack.world.click(MY, ts, value)
            await until(slack, lambda: "result: blue" in texts())
            slack.world.say(MY, "!new")
            await until(slack, lambda: "Started a new conversation." in texts())
            slack.world.say(MY, "another colour")
            await card(slack, "red")
            slack.world.say(MY, "green, please")
            await until(slack, lambda: "result: green, please" in texts())
        cards = [text for text in texts() if text.startswith("which?")]
        assert [one.splitlines()[-1] for one in cards] == [
            "✓ Answered by User 42: blue",
            "✓ Answered by User 42: green, please",
        ]


async def test_a_command_decides_the_ask_that_it_names_and_the_card_names_the_command() -> None:
    """P8: never by position, and never another one."""
    done: list[str] = []
    async with (
        FakeSlack() as slack,
        ChaosServer(choose=acts) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act")) as world,
        talking(world, slack),
    ):
        texts = slack.world.conversation(MY).texts
        slack.world.say(MY, "do it")
        await card(slack, "Allow once")
        assert "For !approve and !deny" in texts()[0]
        slack.world.say(MY, "!approve apr_000000000000000000000000")
        await until(slack, lambda: UNKNOWN in texts())
        assert not done
        slack.world.say(MY, "!approve")
        await until(slack, lambda: "result: act done" in texts())
    assert done == ["act {}"]
