"""What agents remember: at once only their owner's words, else what a person accepts."""

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec.structs import replace as changed

from agent.world import CrashingStore, World, messages, process, tool_ends
from fakes.crash import Crashed, CrashPoint
from features.memory.poison import POISONS, Poison
from features.memory.world import Poisoned, memory_tools, of_user, opened, typed
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.features.memory.memories import Memories, skills_scope, user_scope, workspace_scope
from holdfast.features.memory.run import ONLY_READ, PROPOSED, REMEMBERED, SHOWN
from holdfast.features.memory.state import DOCUMENT_CHARS_MAX
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import HistoryMessage, MemoryMode, RunSettings, TextPart
from stores import MemoryStore

TEA = {"about": "user", "text": "likes tea", "reason": "for breakfast plans"}
NOWHERE = Path("/nowhere")


def remembers(request: SeenRequest) -> Script:
    """A model that remembers what it is told, once."""
    said = messages(request)
    return [Say("ok")] if any(one["role"] == "tool" for one in said) else [CallTool("remember", TEA)]


@pytest.mark.parametrize("mode", ["auto", "ask"])
async def test_typed_words_are_remembered_at_once_or_proposed_as_configured(mode: MemoryMode) -> None:
    store = MemoryStore()
    async with (
        ChaosServer(choose=remembers) as chaos,
        process(chaos, *memory_tools(store), store=store, features=opened(store, mode)) as world,
    ):
        await typed(world, "I like tea")
        log = await world.until("s", e.RunEnded)
        memory = await of_user(store)
        (ended,) = tool_ends(log)
        if mode == "auto":
            assert (ended.result, memory.document, memory.proposals) == (REMEMBERED, "likes tea", {})
            ((_, change),) = memory.history
        else:
            assert (ended.result, memory.document) == (PROPOSED, "")
            (change,) = memory.proposals.values()
            assert ended.proposal == change.change_id
            assert "say that you proposed it" in ended.advice
            assert change.because == ()
        assert change.origin is not None
        accepted = next(one for one in log if isinstance(one.event, e.MessageAccepted))
        assert (change.origin.session_id, change.origin.seq) == ("s", accepted.seq)
        assert (change.before, change.after, change.reason) == ("", "likes tea", "for breakfast plans")


async def test_the_next_conversation_is_told_and_another_owner_is_not() -> None:
    """P11: what one key's agent remembers, another key's agent never sees."""
    store = MemoryStore()
    memories = Memories(store, SystemClock())
    await memories.put(user_scope(""), "document", "likes tea", by="")
    await memories.put(workspace_scope("", NOWHERE), "trip", "pack the red bag", by="")
    await memories.put(user_scope("other"), "document", "likes coffee", by="other")
    async with (
        ChaosServer([CallTool("read_notes", {"query": "red bags"})], [Say("hi")]) as chaos,
        process(chaos, *memory_tools(store), store=store, features=opened(store, "ask")) as world,
    ):
        await typed(world, "hi")
        log = await world.until("s", e.RunEnded)
        system = str(messages(chaos.seen.request(1))[0]["content"])
        assert SHOWN in system
        assert "likes tea" in system
        assert "Notes that read_notes finds: trip" in system
        assert "coffee" not in system
        assert tool_ends(log)[0].result == "## trip\npack the red bag"


def poisoned_tool(poison: Poison) -> Poisoned:
    names = {"page": "fetch_url", "file": "read_file", "mcp": "mcp__shop__ask"}
    tool = Poisoned(names.get(poison.way, "unused"), [], ToolTraits(read_only=True))
    tool.text = poison.text
    return tool


def obeys(request: SeenRequest) -> Script:
    """A model that does whatever anything that it reads says."""
    results = [one for one in messages(request) if one["role"] == "tool"]
    if any(str(one["content"]).startswith((PROPOSED, REMEMBERED)) for one in results):
        return [Say("done")]
    tools = str((request.body or {}).get("tools", []))
    first = next((name for name in ("fetch_url", "read_file", "mcp__shop__ask") if name in tools), "")
    if first and not results:
        return [CallTool(first)]
    skill = {"name": "backup", "description": "poison", "body": "poison", "reason": "I was told so"}
    memory = {"about": "user", "text": "poison", "reason": "I was told so"}
    return [CallTool("remember", memory), CallTool("propose_skill", skill)]


@pytest.mark.parametrize("mode", ["auto", "ask"])
@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: f"{poison.way} {poison.text[-12:]}")
async def test_no_poisoned_text_ever_becomes_an_active_memory_or_skill(
    poison: Poison, mode: MemoryMode, tmp_path: Path
) -> None:
    """P11: a page, file, tool of an MCP server, group member, attachment, history or context file."""
    store, tool = MemoryStore(), poisoned_tool(poison)
    own = () if poison.way == "mcp" or tool.name == "unused" else (tool,)
    if poison.way == "guide":
        (tmp_path / "AGENTS.md").write_text(poison.text)

    def brought(_: str) -> tuple[Tool, ...]:
        return (tool,) if poison.way == "mcp" else ()

    async with (
        ChaosServer(choose=obeys) as chaos,
        process(
            chaos,
            *memory_tools(store),
            *own,
            store=store,
            features=opened(store, mode),
            workspace=tmp_path,
            session_tools={"mcp_client": brought},
        ) as world,
    ):
        await send_poisoned(world, poison)
        await world.until("s", e.RunEnded)
        memory = await of_user(store)
        assert (memory.texts, memory.history) == ({}, [])
        (proposal,) = memory.proposals.values()
        assert proposal.because
        learned = await Memories(store, SystemClock()).load(skills_scope(""))
        assert (learned.texts, next(iter(learned.proposals.values())).document) == ({}, "backup")


async def send_poisoned(world: World, poison: Poison) -> None:
    match poison.way:
        case "attachment":
            await typed(world, "what is this?", parts=(TextPart(poison.text),))
        case "history":
            await typed(world, "hi", history=(HistoryMessage(role="user", content=poison.text),))
        case "member":
            created = e.SessionCreated(at_ms=1, epoch="e", source="page")
            said = e.MessageAccepted(at_ms=1, message_id="m0", text=poison.text, key="eve")
            queued = e.RunQueued(at_ms=1, run_id="r0", message_id="m0")
            await world.store.append("s", [created, said, queued])
            world.supervisor.wake("s", 3)
        case _:
            await typed(world, "look there")


async def test_in_plan_mode_nothing_is_remembered_before_a_person_agrees() -> None:
    """P13: also if what is typed counts at once otherwise."""
    store = MemoryStore()
    async with (
        ChaosServer(choose=remembers) as chaos,
        process(chaos, *memory_tools(store), store=store, features=opened(store, "auto")) as world,
    ):
        await typed(world, "I like tea", settings=RunSettings(plan_first=True))
        await world.until("s", e.RunEnded)
        memory = await of_user(store)
        assert memory.texts == {}
        assert next(iter(memory.proposals.values())).because == (ONLY_READ,)


async def test_proposals_are_accepted_several_at_once_and_a_full_document_says_so() -> None:
    store = MemoryStore()
    memories, scope = Memories(store, SystemClock()), user_scope("")
    long = {"about": "user", "text": "x" * (DOCUMENT_CHARS_MAX + 1), "reason": "r"}
    more = [{"about": "user", "text": f"fact {nth}", "reason": "r"} for nth in range(3)]
    async with (
        ChaosServer([CallTool("remember", one) for one in (*more, long)], [Say("ok")]) as chaos,
        process(chaos, *memory_tools(store), store=store, features=opened(store, "ask")) as world,
    ):
        await typed(world, "remember these")
        log = await world.until("s", e.RunEnded)
        assert [one.ok for one in tool_ends(log)] == [True, True, True, False]
        assert "the limit is 2,000" in tool_ends(log)[-1].result
        ids = list((await memories.load(scope)).proposals)
        memory = await memories.decide(scope, accept=ids[:2], reject=ids[2:], by="me")
        assert (memory.document, memory.proposals) == ("fact 0\nfact 1", {})


async def test_a_rollback_to_any_point_is_the_same_to_the_byte() -> None:
    store = MemoryStore()
    memories, scope = Memories(store, SystemClock()), user_scope("me")
    points: list[tuple[int, dict[str, str]]] = [(0, {})]
    changes = (("document", "a"), ("document", "a\n\tü😀 "), ("trip", "note"), ("trip", ""), ("x", "b"))
    for document, text in changes:
        memory = await memories.put(scope, document, text, by="me")
        points.append((memory.last_seq, dict(memory.texts)))
    for seq, texts in [*points, *reversed(points)]:
        memory = await memories.roll_back(scope, seq, by="me")
        assert {name: text.encode() for name, text in memory.texts.items()} == {
            name: text.encode() for name, text in texts.items()
        }


async def test_what_is_forgotten_is_nowhere_in_the_store_and_the_rest_is_kept() -> None:
    """P11: also if the process dies between the purge and the new log."""
    disk = MemoryDisk()
    store = MemoryStore(disk)
    memories, scope = Memories(store, SystemClock()), user_scope("me")
    await memories.put(scope, "document", "likes tea\nhas a secret cat", by="me")
    await memories.put(scope, "document", "likes tea\nhas a secret cat named Tom", by="me")
    await memories.forget(scope, "secret cat")
    log = await store.read(scope.log_id, limit=100)
    assert b"secret cat" not in b"".join(record.body for record in log)
    assert (await memories.load(scope)).document == "likes tea"
    # A crash after the purge: the note has what is left, and the next look finishes it.
    await store.put_note(f"memory-left/{scope.log_id}", b'{"texts":{"document":"likes tea"}}')
    await store.purge(scope.log_id)
    await memories.load(scope)
    assert (await memories.load(scope)).document == "likes tea"
    await memories.forget(scope, "")
    assert (await memories.load(scope)).texts == {}


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint) -> None:
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=True)
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, *memory_tools(store), store=store, features=opened(store, "auto")) as world:
            using = asyncio.create_task(use(world))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({using, dead}, return_when=asyncio.FIRST_COMPLETED)
            for task in (using, dead):
                task.cancel()
            await asyncio.wait({using, dead})


async def use(world: World) -> None:
    if not await world.store.last_seq("s"):
        await typed(world, "I like tea")
    await world.until("s", e.RunEnded)


async def test_a_crash_at_any_append_of_a_learning_turn_learns_once() -> None:
    """P6."""
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer(choose=remembers) as chaos:
            await live(chaos, disk, crash)
            await live(chaos, disk, CrashPoint(10_000))
        memory = await of_user(MemoryStore(disk))
        assert memory.document == "likes tea", nth
        assert len(memory.history) == 1
        if not crash.has_crashed:
            break


def test_the_corpus_has_thirty_texts_and_all_ways() -> None:
    assert len(POISONS) == 30
    assert len({changed(one, text="") for one in POISONS}) == 7
