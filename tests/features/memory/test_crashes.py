"""A crash at every write of what a person decides: proposals, skills, forgetting."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Literal, TypeAlias

import pytest

from fakes.crash import Crashed, CrashPoint
from holdfast.features.memory.events import MemoryWritten
from holdfast.features.memory.memories import Memories, MemoryEdit, MemoryScope, skills_scope, user_scope
from holdfast.features.skills.folders import skill_file
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from stores import MemoryStore

USER, SKILLS = user_scope("me"), skills_scope("me")
SKILL = skill_file("notes", "Write notes.", "1. Look.")
When: TypeAlias = Literal["before", "after"]
Deed: TypeAlias = Callable[[Memories], Awaitable[object]]


class DyingStore(MemoryStore):
    """A store whose process dies at the nth write of any kind, before it is made or just after."""

    def __init__(self, disk: MemoryDisk, crash: CrashPoint, *, when: When) -> None:
        super().__init__(disk)
        for name in ("append", "swap_note", "purge"):
            setattr(self, name, crash.around(getattr(super(), name), when=when))


async def remember(memories: Memories) -> None:
    """A run proposes, a person accepts; whoever got no answer does it again."""
    edit = MemoryEdit(change_id="r1/t1", document="document", new="likes tea", reason="breakfast")
    await memories.propose(USER, edit, because=("the result of the tool shell",))
    await memories.decide(USER, accept=["r1/t1"], by="me")


async def learn(memories: Memories) -> None:
    edit = MemoryEdit(change_id="r1/t2", document="notes", new=SKILL, reason="again")
    await memories.propose(SKILLS, edit, because=(), shown_before="the file")
    await memories.decide(SKILLS, accept=["r1/t2"], by="me")


async def reject(memories: Memories) -> None:
    edit = MemoryEdit(change_id="r1/t3", document="document", new="is Mallory", reason="told so")
    await memories.propose(USER, edit, because=("a page",))
    await memories.decide(USER, reject=["r1/t3"], by="me")


async def texts(disk: MemoryDisk, scope: MemoryScope) -> dict[str, str]:
    memory = await Memories(MemoryStore(disk), SystemClock()).load(scope)
    assert not memory.proposals
    return memory.texts


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("deed", "scope", "expected"),
    [
        (remember, USER, {"document": "likes tea"}),
        (learn, SKILLS, {"notes": SKILL}),
        (reject, USER, {}),
    ],
    ids=["memory", "skill", "rejected"],
)
async def test_what_a_person_decides_happens_once_wherever_the_process_dies(
    deed: Deed, scope: MemoryScope, expected: dict[str, str], when: When
) -> None:
    """P6, P8."""
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        with suppress(Crashed):
            await deed(Memories(DyingStore(disk, crash, when=when), SystemClock()))
        await deed(Memories(MemoryStore(disk), SystemClock()))
        assert await texts(disk, scope) == expected, nth
        log = await MemoryStore(disk).read(scope.log_id, limit=100)
        written = [record.event for record in log if isinstance(record.event, MemoryWritten)]
        assert len(written) == len(expected), nth
        if not crash.has_crashed:
            break


@pytest.mark.parametrize("when", ["before", "after"])
async def test_forgetting_leaves_no_copy_and_loses_nothing_else_wherever_the_process_dies(
    when: When,
) -> None:
    """P6, P11: the other lines, notes and proposals stay; the text is in no log and no note."""
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        await fill(Memories(MemoryStore(disk), SystemClock()))
        with suppress(Crashed):
            await Memories(DyingStore(disk, crash, when=when), SystemClock()).forget(USER, "Tom")
        memories = Memories(MemoryStore(disk), SystemClock())
        if crash.has_crashed:
            await memories.forget(USER, "Tom")
        await assert_forgotten(MemoryStore(disk), memories)
        if not crash.has_crashed:
            break


async def fill(memories: Memories) -> None:
    await memories.put(USER, "document", "likes tea\nhas a cat named Tom", by="me")
    await memories.put(USER, "trip", "pack the red bag", by="me")
    await memories.put(USER, "About Tom", "eats fish", by="me")
    for nth, text in enumerate(("lives in Rome", "Tom is three")):
        edit = MemoryEdit(change_id=f"r/{nth}", document="document", new=text, reason="told")
        await memories.propose(USER, edit, because=())


async def assert_forgotten(store: MemoryStore, memories: Memories) -> None:
    memory = await memories.load(USER)
    assert memory.texts == {"document": "likes tea", "trip": "pack the red bag"}
    (proposal,) = memory.proposals.values()
    assert (proposal.change_id, proposal.before, proposal.after) == (
        "r/0",
        "likes tea",
        "likes tea\nlives in Rome",
    )
    log = await store.read(USER.log_id, limit=100)
    assert b"Tom" not in b"".join(record.body for record in log)
    assert not await store.note(f"memory-left/{USER.log_id}")
    assert (await memories.decide(USER, accept=["r/0"])).document == "likes tea\nlives in Rome"


async def test_a_write_between_the_purge_and_the_new_log_keeps_what_is_left() -> None:
    """P2: two processes; one has purged the log, and the other writes before what is left is back."""
    disk = MemoryDisk()
    store = MemoryStore(disk)
    memories = Memories(store, SystemClock())
    await fill(memories)
    crash = CrashPoint(2)
    with suppress(Crashed):
        await Memories(DyingStore(disk, crash, when="after"), SystemClock()).forget(USER, "Tom")
    assert not await store.last_seq(USER.log_id)
    edit = MemoryEdit(change_id="new", document="document", new="speaks Greek")
    memory = await memories.write(USER, edit, how="auto")
    assert memory.texts == {"document": "likes tea\nspeaks Greek", "trip": "pack the red bag"}
