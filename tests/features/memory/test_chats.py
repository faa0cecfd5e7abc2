"""What is remembered in a chat is known in that chat, and nowhere else."""

from collections.abc import Sequence
from pathlib import Path

from agent.world import World, messages, process
from fakes.telegram import FakeTelegram
from features.channels.lab import LOG, ME, channel, options_for, until
from features.memory.world import opened
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.memory.memories import Memories, chat_scope, skills_scope, user_scope, workspace_scope
from holdfast.features.memory.run import ReadNotes, Remember
from holdfast.features.skills.run import ProposeSkill
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.tools.recall import NOTHING, SearchSessions
from holdfast.values import MemoryMode
from stores import MemoryStore

GROUP, PRIVATE = "tg/-5", f"tg/{ME}"
SKILL = {"name": "deploy", "description": "d", "body": "b", "reason": "r"}


def tools(store: MemoryStore) -> tuple[Tool, ...]:
    return (
        Remember(),
        ReadNotes(store, Memories(store, SystemClock())),
        ProposeSkill(),
        SearchSessions(store),
    )


def last_words(request: SeenRequest) -> str:
    return str([one for one in messages(request) if one["role"] == "user"][-1]["content"])


def obeys(request: SeenRequest) -> Script:
    """Does what the last message says: a tool and one word for it."""
    said = messages(request)
    if said[-1]["role"] == "tool":
        return [Say(str(said[-1]["content"]))]
    *_, verb, word = last_words(request).split()
    calls = {
        "remember": CallTool("remember", {"about": "user", "text": f"the word is {word}", "reason": "r"}),
        "note": CallTool("remember", {"about": "workspace", "text": word, "reason": "r", "note": "pin"}),
        "learn": CallTool("propose_skill", SKILL),
        "read": CallTool("read_notes", {"query": word}),
        "recall": CallTool("search_sessions", {"query": word}),
    }
    return [calls[verb]] if verb in calls else [Say("ok")]


async def accept_all(store: MemoryStore, *names: str) -> None:
    memories = Memories(store, SystemClock())
    for name in names:
        for scope in (chat_scope(name), skills_scope("", name)):
            await memories.decide(scope, accept=list((await memories.load(scope)).proposals), by="me")


async def tell(telegram: FakeTelegram, store: MemoryStore, chat: int, text: str) -> str:
    """Say it to the bot, wait until it has nothing more to say, and return the last message."""
    before = len(telegram.world.chat(chat).texts())
    telegram.world.say(chat, f"@holdfast_bot {text}" if chat < 0 else text, user_id=ME)
    await until(telegram, lambda: len(telegram.world.chat(chat).texts()) > before)
    async for _ in store.follow(LOG):
        state = await channel_state(store, LOG)
        if not state.awaited and not state.outbox.queues:
            break
    return telegram.world.chat(chat).texts()[-1]


async def check_a_groups_memory_is_not_a_private_chats(mode: MemoryMode) -> None:
    """P11: neither the documents, the notes, the skills nor the conversations; and never active by itself."""
    store = MemoryStore()
    memories = Memories(store, SystemClock())
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=obeys) as chaos,
        process(chaos, *tools(store), store=store, features=opened(store, mode)) as world,
    ):
        await memories.put(user_scope(""), "document", "the owner's secret", by="")
        await memories.put(workspace_scope("", Path("/nowhere")), "pin", "the owner's pin 1234", by="")
        async with channel(world, options_for(telegram)):
            for text in ("remember plum", "note 4711", "learn it"):
                await tell(telegram, store, ME, text)
            await tell(telegram, store, -5, "remember pear")
            assert not (await memories.load(chat_scope(PRIVATE))).texts
            assert len((await memories.load(chat_scope(PRIVATE))).proposals) == 2
            assert not (await memories.load(skills_scope("", GROUP))).proposals
            await accept_all(store, PRIVATE, GROUP)
            first = chaos.seen.requests_seen + 1
            assert "4711" in await tell(telegram, store, ME, "read 4711")
            assert "4711" not in await tell(telegram, store, -5, "read 4711")
            assert "1234" not in await tell(telegram, store, -5, "read pin")
            await typed_elsewhere(world, "the plum is in the page's chat")
            await tell(telegram, store, ME, "/new")
            assert "plum" in await tell(telegram, store, ME, "recall plum")
            assert await tell(telegram, store, -5, "recall plum") == NOTHING
            shown = [
                instructions(chaos.seen.request(at)) for at in range(first, chaos.seen.requests_seen + 1)
            ]
        assert_apart(shown)


async def typed_elsewhere(world: World, text: str) -> None:
    assert isinstance(await world.inbox.send("page", IncomingMessage(text=text, source="page")), Sent)


def instructions(request: SeenRequest) -> str:
    """The system text, and the notes about what changed in it."""
    shown = [(message["role"], str(message["content"])) for message in messages(request)]
    return "\n".join(
        text for role, text in shown if role == "system" or text.startswith("[Note from Holdfast")
    )


def assert_apart(shown: Sequence[str]) -> None:
    """Each chat's model was shown its own memory, and none was shown two or the owner's."""
    assert any("About this chat:\nthe word is plum" in one for one in shown)
    assert any("About this chat:\nthe word is pear" in one for one in shown)
    assert not any("plum" in one and "pear" in one for one in shown)
    chats = [one for one in shown if "About this chat" in one]
    assert not any("the owner's" in one for one in chats)


async def test_a_groups_memory_is_not_a_private_chats_when_people_are_asked() -> None:
    await check_a_groups_memory_is_not_a_private_chats("ask")


async def test_a_groups_memory_is_not_a_private_chats_when_words_count_at_once() -> None:
    await check_a_groups_memory_is_not_a_private_chats("auto")
