"""Pins and reverts: what is refused and why, races between people, crashes, forks and rewinds."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

from typing_extensions import override

from agent.world import CrashingStore, World, kinds, messages, process, send
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.events import Input
from holdfast.folds.context import PINNED, context_for
from holdfast.folds.session import Session
from holdfast.folds.transcript import fold
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    IdempotencyKey,
    IfSessionNew,
    JournalError,
    KeyConflict,
    Replayed,
)
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.forks import ForkSource, forked_log
from holdfast.runner.inbox import Sent
from holdfast.runner.model_context import Changed, ModelContexts, NotChanged
from serving import AsksAbout
from stores import MemoryStore

STORY = "an old story " * 800  # 2,600 tokens
SHORT = "a short story " * 100  # 350 tokens
SUMMARY = "## Task\nthe story in short"
WINDOWS = {"small": 3_000, "larger": 5_000, "largest": 90_000}
LAST = "and now?"


def story_teller(request: SeenRequest) -> Script:
    is_summary = str(messages(request)[-1]["content"]).startswith("Below is")
    return [Say(SUMMARY if is_summary else "yes")]


class RacingStore(MemoryStore):
    """Someone else is faster: `before` is awaited before an input of the given kind is appended."""

    kind: type[Input] = e.ContextReverted
    before: Callable[[], Awaitable[object]] | None = None

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        before = self.before
        if before is not None and isinstance(inputs[0], self.kind):
            self.before = None
            await before()
        return await super().append(session_id, inputs, when=when, idempotency_key=idempotency_key)


@asynccontextmanager
async def talked(
    *texts: str,
    store: MemoryStore | None = None,
    window: int = 3_000,
    windows: Mapping[str, int] = WINDOWS,
    script: object = story_teller,
) -> AsyncGenerator[tuple[World, ModelContexts]]:
    """A process, and a session in which these messages were answered."""
    async with (
        ChaosServer(choose=script) as chaos,  # pyright: ignore[reportArgumentType]
        process(chaos, store=store, context_window=window, windows=windows) as world,
    ):
        for nth, text in enumerate(texts, start=1):
            await send(world, text)
            await world.until("s", e.RunEnded, times=nth)
        yield world, ModelContexts(world.supervisor)


async def of_kind(world: World, kind: type[e.Event]) -> list[int]:
    return [record.seq for record in await world.log("s") if isinstance(record.event, kind)]


async def message_ids(world: World) -> list[str]:
    events = [record.event for record in await world.log("s")]
    return [event.message_id for event in events if isinstance(event, e.MessageAccepted)]


async def context(world: World, session_id: str = "s") -> str:
    """What the newest run's model saw."""
    transcript = (await world.supervisor.view(session_id)).transcript
    return str(context_for(transcript, next(reversed(transcript.runs)))).replace("\\n", "\n")


async def test_a_revert_shows_the_model_the_messages_again() -> None:
    """P6: and the next call says that this invalidated the prompt cache."""
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        assert STORY not in await context(world)
        assert await contexts.revert("s", seq, model="largest", by="ann") == Changed()
        assert STORY in await context(world)
        reverted = [one.event for one in await world.log("s") if isinstance(one.event, e.ContextReverted)]
        assert [(one.reverted_seq, one.by) for one in reverted] == [(seq, "ann")]
        await send(world, "go on", model="largest")
        log = await world.until("s", e.RunEnded, times=3)
    sets = [record.event.reason for record in log if isinstance(record.event, e.ContextSet)]
    assert sets == ["first", "compaction", "revert"]
    assert kinds(log).count(e.ContextCompacted) == 1, "the window is that of the named target"


async def test_a_revert_that_does_not_fit_names_the_numbers_and_a_target() -> None:
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        refused = await contexts.revert("s", seq)
        assert isinstance(refused, NotChanged)
        assert (refused.why, refused.tokens_max, refused.window) == ("too_large", 2_400, 3_000)
        assert 2_600 < refused.tokens < 3_000
        assert refused.target == "larger", "the smallest that is large enough"
        assert (await contexts.revert("s", seq, model="small")) == refused
        assert await of_kind(world, e.ContextReverted) == []


async def test_a_revert_that_fits_nowhere_names_no_target() -> None:
    async with talked(STORY, LAST, windows={"small": 3_000, "other": 3_200}) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        refused = await contexts.revert("s", seq, model="other")
        assert isinstance(refused, NotChanged)
        assert (refused.why, refused.window, refused.target) == ("too_large", 3_200, "")


async def test_what_can_not_be_reverted() -> None:
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        assert await contexts.revert("s", 1) == NotChanged("not_found")
        assert await contexts.revert("s", seq, model="largest") == Changed()
        assert await contexts.revert("s", seq, model="largest") == NotChanged("reverted")
        await world.inbox.put("s", e.SessionDeleted(at_ms=1, purge_at_ms=2))
        assert await contexts.pin("s", (await message_ids(world))[1]) == NotChanged("session_deleted")


async def test_a_rewound_summary_is_gone() -> None:
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        assert await world.inbox.rewind("s", seq - 1) is None
        assert await contexts.revert("s", seq, model="largest") == NotChanged("not_found")
        assert isinstance(await world.inbox.compact("s", ""), Sent), "there is something to summarize again"
        await world.until("s", e.RunEnded, times=3)


async def test_nothing_is_reverted_while_a_run_is_open() -> None:
    gate = Gate()

    def script(request: SeenRequest) -> Script:
        is_held = messages(request)[-1]["content"] == "wait"
        return [Wait(gate), Say("yes")] if is_held else story_teller(request)

    async with talked(STORY, LAST, script=script) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        await send(world, "wait")
        await gate.reached()
        assert await contexts.revert("s", seq, model="largest") == NotChanged("busy")
        assert await contexts.pin("s", (await message_ids(world))[1]) == Changed(), "a pin can be set"
        gate.open()
        await world.until("s", e.RunEnded, times=3)


async def test_a_run_that_starts_during_a_revert_wins() -> None:
    """P6: the condition is checked with the append, so the run's model sees what it was shown before."""
    store = RacingStore()
    async with talked(STORY, LAST, store=store) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        gate = asyncio.Event()

        async def start() -> None:
            await send(world, "faster")
            gate.set()

        store.before = start
        refused = await contexts.revert("s", seq, model="largest")
        assert gate.is_set()
        await world.until("s", e.RunEnded, times=3)
        # The run may have ended by then, but the log has at most one of the two orders.
        assert refused == NotChanged("busy")
        assert await of_kind(world, e.ContextReverted) == []


async def test_of_two_reverts_at_once_one_is_on_the_log() -> None:
    store = RacingStore()
    async with talked(STORY, LAST, store=store) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        store.before = lambda: contexts.revert("s", seq, model="largest", by="ann")
        assert await contexts.revert("s", seq, model="largest", by="bob") == NotChanged("reverted")
        assert len(await of_kind(world, e.ContextReverted)) == 1


async def test_two_pins_at_once_can_not_exceed_the_limit_together() -> None:
    """P12: a quarter of 3,000 tokens; each pin alone has about 550."""
    store = RacingStore()
    store.kind = e.MessagePinned
    async with talked(SHORT + "x" * 800, SHORT + "y" * 800, store=store) as (world, contexts):
        one, other = await message_ids(world)
        store.before = lambda: contexts.pin("s", other, by="ann")
        refused = await contexts.pin("s", one, by="bob")
        assert isinstance(refused, NotChanged)
        assert (refused.why, refused.tokens_max, refused.window) == ("pins_too_large", 750, 3_000)
        assert refused.tokens > 1_000
        view = await world.supervisor.view("s")
        assert list(view.transcript.pins) == [other]
        assert await contexts.unpin("s", other) == Changed()
        assert await contexts.pin("s", one) == Changed()


async def test_many_pins_at_once_are_decided_one_after_another() -> None:
    async with talked(SHORT, "b", "c", "d", window=9_000) as (world, contexts):
        ids = await message_ids(world)
        results = await asyncio.gather(*(contexts.pin("s", one) for one in ids))
        assert {type(one) for one in results} <= {Changed, NotChanged}
        lost = [id_ for id_, one in zip(ids, results, strict=True) if one == NotChanged("conflict")]
        assert len(lost) <= 1, "three of four are pinned within three tries"
        assert await contexts.pin("s", lost[0] if lost else ids[0]) == Changed()
        assert set((await world.supervisor.view("s")).transcript.pins) == set(ids)


async def test_pins_are_word_for_word_behind_the_next_summary() -> None:
    async with talked(SHORT, "b", window=9_000) as (world, contexts):
        runs = list((await world.supervisor.view("s")).session.runs)
        first = (await message_ids(world))[0]
        for id_ in (first, runs[1]):
            assert await contexts.pin("s", id_, by="ann") == Changed()
            assert await contexts.pin("s", id_, by="ann") == Changed(), "it's pinned"
        assert len(await of_kind(world, e.MessagePinned)) == 2
        await world.inbox.compact("s", "")
        await world.until("s", e.RunEnded, times=3)
        shown = await context(world)
        assert f"{PINNED}\nUSER: {SHORT}" in shown
        assert f"{PINNED}\nASSISTANT: yes" in shown


async def test_what_can_not_be_pinned_or_unpinned() -> None:
    async with talked("a", "b") as (world, contexts):
        assert await contexts.pin("s", "nothing") == NotChanged("not_found")
        assert await contexts.unpin("s", "nothing") == NotChanged("not_found")
        ids, runs = await message_ids(world), list((await world.supervisor.view("s")).session.runs)
        assert await contexts.unpin("s", ids[0]) == Changed(), "it isn't pinned"
        assert await of_kind(world, e.MessageUnpinned) == []
        assert await contexts.pin("s", runs[1]) == Changed()
        assert await world.inbox.rewind("s", 3) is None
        assert await contexts.pin("s", ids[1]) == NotChanged("not_found"), "it was rewound"
        assert await contexts.unpin("s", runs[1]) == Changed(), "a rewound answer can be"
        assert (await world.supervisor.view("s")).transcript.pins == {}


async def test_a_fork_keeps_pins_and_reverts_and_has_its_own_from_then_on() -> None:
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        pinned = (await message_ids(world))[1]
        await contexts.pin("s", pinned)
        await copy(world, "before")
        await contexts.revert("s", seq, model="largest")
        await copy(world, "after")
        assert STORY not in await context(world, "before")
        assert STORY in await context(world, "after")
        before = (await world.supervisor.view("before")).transcript
        assert list(before.pins) == [pinned]
        assert await contexts.revert("before", next(iter(before.shortened)), model="largest") == Changed()
        assert await contexts.revert("after", seq, model="largest") == NotChanged("reverted")


async def copy(world: World, to: str) -> None:
    source = ForkSource("s", Session(), "")
    at_seq = await world.store.last_seq("s")
    events = await forked_log(world.store, source, at_seq=at_seq, judge=AsksAbout(), now_ms=1)
    result = await world.store.append(to, events, when=[IfSessionNew()])  # pyright: ignore[reportArgumentType]
    assert isinstance(result, Appended)


async def test_a_crash_at_a_pin_or_revert_leaves_it_done_or_undone() -> None:
    """P6: repeating it after the restart changes nothing twice."""
    for after in (False, True):
        disk = MemoryDisk()
        async with talked(STORY, LAST, store=MemoryStore(disk)) as (world, _):
            (seq,), (_, pinned) = await of_kind(world, e.ContextCompacted), await message_ids(world)
        for nth in (1, 1) if after else (1, 2):
            crash = CrashPoint(nth)
            await change(CrashingStore(disk, crash, after=after), crash, seq=seq, pinned=pinned)
            assert crash.has_crashed
        await change(MemoryStore(disk), CrashPoint(10), seq=seq, pinned=pinned)
        log = fold([(one.seq, one.event) for one in await MemoryStore(disk).read("s", limit=1_000)])
        events = [type(one.event) for one in await MemoryStore(disk).read("s", limit=1_000)]
        assert (list(log.pins), log.shortened[seq].reverted is not None) == ([pinned], True)
        assert (events.count(e.MessagePinned), events.count(e.ContextReverted)) == (1, 1)


async def change(store: MemoryStore, crash: CrashPoint, *, seq: int, pinned: str) -> None:
    """One process that pins and reverts, until it crashes."""

    def die() -> NoReturn:
        raise Crashed

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with talked(store=store) as (_, contexts):
            await contexts.pin("s", pinned)
            await contexts.revert("s", seq, model="largest")


async def test_old_tool_results_count_in_what_a_revert_needs() -> None:
    """The size as if reverted is that of the fold after the revert."""
    async with talked(STORY, LAST) as (world, contexts):
        (seq,) = await of_kind(world, e.ContextCompacted)
        view = await world.supervisor.view("s")
        sent = await contexts.sent_before("s", view)
        expected = contexts.size("s", view, sent, model="largest", undone_seq=seq)
        await contexts.revert("s", seq, model="largest")
        view = await world.supervisor.view("s")
        assert contexts.size("s", view, sent, model="largest") == expected
        assert sent.recorded is not None
        assert sent.recorded.reason == "compaction"
