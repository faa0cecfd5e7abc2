"""Wrong ways to remember and to forget; the check of the promise that each breaks must notice."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from typing_extensions import override

from holdfast import events as e
from holdfast.decisions.outside_sources import outside_sources
from holdfast.features.memory import state
from holdfast.features.memory.events import MemoryProposed, MemoryRejected, MemoryWritten
from holdfast.features.memory.memories import (
    Memories,
    MemoryScope,
    NotRemembered,
    chat_scope,
    scopes_shown,
    user_scope,
    workspace_scope,
)
from holdfast.features.memory.state import Memory
from holdfast.folds import session as sessions
from holdfast.folds import transcript as transcripts
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.system_clock import SystemClock
from sabotage import Sabotage
from scene import Scene
from stores import MemoryStore

ME = user_scope("me")
Sources: TypeAlias = Callable[[Session, Transcript, str], tuple[str, ...]]

# P11: what a page says is never remembered by itself


def typed(source: str = "page") -> Scene:
    """A person's message on the page, and the run that has it."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e", source="page")
    scene.put(e.MessageAccepted, message_id="m1", text="hi", key="me", source=source)
    scene.put(e.RunQueued, run_id="r1", message_id="m1", key="me")
    scene.begin("r1")
    scene.call()
    return scene


def again(scene: Scene) -> Scene:
    scene.ends()
    scene.put(e.MessageAccepted, message_id="m2", text="go on", key="me", source="page")
    scene.put(e.RunQueued, run_id="r2", message_id="m2", key="me")
    scene.begin("r2")
    return scene


def found(sources: Sources, scene: Scene, run_id: str) -> tuple[str, ...]:
    return sources(sessions.fold(scene.log), transcripts.fold(scene.log), run_id)


async def check_a_tools_result_makes_a_write_a_proposal(sources: Sources) -> None:
    """P11: in the same run, in an earlier run, and behind a summary; a program's message, too."""
    assert found(sources, typed(), "r1") == ()
    scene = typed()
    scene.tool("t1", "poison")
    assert found(sources, scene, "r1")
    assert found(sources, again(scene), "r2")
    scene = typed()
    scene.tool("t1", "poison")
    scene.of_run(e.ContextCompacted, upto_seq=scene.seq, summary="poison")
    assert found(sources, again(scene), "r2")
    assert found(sources, typed(source="api"), "r1")


def trusts_everything(session: Session, transcript: Transcript, run_id: str) -> tuple[str, ...]:
    """Remembers whatever the model wants."""
    del session, transcript, run_id
    return ()


def looks_at_this_run_alone(session: Session, transcript: Transcript, run_id: str) -> tuple[str, ...]:
    """Forgets what earlier runs of the conversation brought in."""
    run = transcript.runs[run_id]
    alone = Transcript(entries=list(run.entries), runs={run_id: run}, inbox=transcript.inbox)
    return outside_sources(session, alone, run_id)


def believes_the_summary(session: Session, transcript: Transcript, run_id: str) -> tuple[str, ...]:
    """Takes a summary for the owner's words."""
    return tuple(one for one in outside_sources(session, transcript, run_id) if "summary" not in one)


def believes_the_key(session: Session, transcript: Transcript, run_id: str) -> tuple[str, ...]:
    """Takes a program for its owner."""
    return tuple(one for one in outside_sources(session, transcript, run_id) if "program" not in one)


# P11: a chat's memory stays there


async def check_a_chat_has_no_other_memory(
    scopes: Callable[[str, Path, str], Sequence[MemoryScope]],
) -> None:
    """P11: in a group, others read along."""
    assert list(scopes("me", Path("/w"), "tg/-5")) == [chat_scope("tg/-5")]
    assert chat_scope("tg/-5") not in scopes("me", Path("/w"), "")


def shows_all(owner: str, workspace: Path, chat: str) -> tuple[MemoryScope, ...]:
    """Shows a group what its owner told the agent alone."""
    return (*([chat_scope(chat)] if chat else []), user_scope(owner), workspace_scope(owner, workspace))


# P11: forgotten is gone; P6: and the rest isn't


class KeepsTheLog(MemoryStore):
    """Forgets to purge."""

    @override
    async def purge(self, session_id: str, **rest: Any) -> Any:
        return True


async def check_what_is_forgotten_is_nowhere(store_type: type[MemoryStore]) -> None:
    """P11: neither in the log nor in what was kept for a crash."""
    store = store_type()
    memories = Memories(store, SystemClock())
    await memories.put(ME, "document", "likes tea\nhas a cat named Tom", by="me")
    with suppress(NotRemembered):  # it looks whether the text is gone, but that alone doesn't remove it
        await memories.forget(ME, "Tom")
    log = await store.read(ME.log_id, limit=100)
    assert b"Tom" not in b"".join(record.body for record in log)
    assert (await memories.load(ME)).document == "likes tea"


class LosesNotes(MemoryStore):
    """Doesn't write down what is left before the log goes."""

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        return True


async def check_forgetting_one_thing_keeps_the_others(store_type: type[MemoryStore]) -> None:
    """P6: the log is purged and written anew; in between, what is left is on disk."""
    memories = Memories(store_type(), SystemClock())
    await memories.put(ME, "document", "likes tea\nhas a cat named Tom", by="me")
    await memories.forget(ME, "Tom")
    assert (await memories.load(ME)).document == "likes tea"


# P8: a rejected proposal isn't carried out


def believes_the_last_word(pairs: Iterable[tuple[int, e.Event]]) -> Memory:
    """Makes a change that someone rejected meanwhile."""
    return state.fold(pair for pair in pairs if not isinstance(pair[1], MemoryRejected))


async def check_a_rejected_change_is_not_made(
    fold: Callable[[Iterable[tuple[int, e.Event]]], Memory],
) -> None:
    """P8: whoever accepted it had seen it before it was rejected."""
    change: dict[str, Any] = {"at_ms": 1, "change_id": "c1", "document": "document", "after": "is Mallory"}
    log: list[tuple[int, e.Event]] = [
        (1, MemoryProposed(**change, before="", new="is Mallory", reason="r")),
        (2, MemoryRejected(at_ms=1, change_id="c1", by="ann")),
        (3, MemoryWritten(**change, before="", how="accepted", by="bob")),
    ]
    assert fold(log).texts == {}


# P13: what was learned can be taken back


class TidiesUp(Memories):
    """Rolls back to nearly the same text."""

    @override
    async def roll_back(self, scope: MemoryScope, to_seq: int, *, by: str, seen_seq: int = 0) -> Memory:
        memory = await super().roll_back(scope, to_seq, by=by, seen_seq=seen_seq)
        return await self.put(scope, "document", memory.document.strip(), by=by)


async def check_a_rollback_is_exact(memories_type: type[Memories]) -> None:
    """P13: byte by byte, spaces and all."""
    memories = memories_type(MemoryStore(), SystemClock())
    text = " likes tea\t\n\n\u00fc\U0001f600 "
    seq = (await memories.put(ME, "document", text, by="me")).last_seq
    await memories.put(ME, "document", "else", by="me")
    await memories.roll_back(ME, seq, by="me")
    assert (await memories.load(ME)).document.encode() == text.encode()


_SOURCES = (trusts_everything, looks_at_this_run_alone, believes_the_summary, believes_the_key)
SABOTAGES = (
    *(
        Sabotage("P11", check_a_tools_result_makes_a_write_a_proposal, right=outside_sources, wrong=wrong)
        for wrong in _SOURCES
    ),
    Sabotage("P11", check_a_chat_has_no_other_memory, right=scopes_shown, wrong=shows_all),
    Sabotage("P11", check_what_is_forgotten_is_nowhere, right=MemoryStore, wrong=KeepsTheLog),
    Sabotage("P6", check_forgetting_one_thing_keeps_the_others, right=MemoryStore, wrong=LosesNotes),
    Sabotage("P8", check_a_rejected_change_is_not_made, right=state.fold, wrong=believes_the_last_word),
    Sabotage("P13", check_a_rollback_is_exact, right=Memories, wrong=TidiesUp),
)
