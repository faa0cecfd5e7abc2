"""Small wrong stores, each breaking one promise; the check of that promise must notice."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from fakes.lossy_vfs import LossyVFS
from holdfast.codec import encode
from holdfast.events import Event, Input, TextDelta
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    IdempotencyKey,
    KeyConflict,
    Pace,
    Record,
    Replayed,
)
from holdfast.journal.follow import Follower
from holdfast.journal.sqlite.commits import Commits
from holdfast.journal.sqlite.jobs import WriteJob
from holdfast.journal.sqlite.writer import Writer
from holdfast.journal.thinning import Stretch, ThinningPlan
from holdfast.redaction import Redactor
from journal.labs import SqliteLab
from journal.promise_checks import (
    Check,
    check_a_condition_has_one_winner,
    check_a_follower_misses_and_repeats_nothing,
    check_a_key_has_one_effect,
    check_a_lost_fence_writes_nothing,
    check_a_purge_leaves_the_histories_of_others_whole,
    check_nothing_refused_is_ever_shown,
    check_thinning_takes_no_text_from_anyone,
    check_time_never_goes_back,
    check_what_was_accepted_outlives_its_file,
    check_what_was_shown_outlives_its_file,
)
from stores import SqliteStore


class PublishesBeforeCommit(SqliteStore):
    """Shows events as soon as they are handed in."""

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed:
        last = await self.last_seq(session_id)
        shown = [Record(session_id, seq, body=encode(event)) for seq, event in enumerate(events, last + 1)]
        self._tails.publish(session_id, shown)
        await asyncio.sleep(0)
        return await super().append_run(
            session_id, events, fence=fence, when=when, idempotency_key=idempotency_key
        )


class IgnoresTheFence(SqliteStore):
    """Lets anyone write for a run."""

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,  # noqa: ARG002  # that is the fault
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed:
        return await self.append(session_id, events, when=when, idempotency_key=idempotency_key)  # pyright: ignore[reportReturnType, reportArgumentType]


class IgnoresConditions(SqliteStore):
    """Appends whatever the conditions say, so a run can end twice."""

    async def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),  # noqa: ARG002  # that is the fault
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed:
        return await super().append_run(session_id, events, fence=fence, idempotency_key=idempotency_key)


class ForgetsKeys(SqliteStore):
    """Takes an input as often as it is sent."""

    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,  # noqa: ARG002  # that is the fault
    ) -> Appended | Declined | Replayed | KeyConflict:
        return await super().append(session_id, inputs, when=when)


class SkipsOne(SqliteStore):
    """A cursor that is one too far."""

    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> Follower:
        return super().follow(session_id, after=after + 1 if after else 0, pace=pace)


class RepeatsOne(SqliteStore):
    """A cursor that is one behind."""

    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> Follower:
        return super().follow(session_id, after=max(0, after - 1), pace=pace)


class ForgetsWhatLeftTheWindow(SqliteStore):
    """Live events alone: who falls behind the window in memory misses some."""

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        newest = await self.last_seq(session_id)
        return await super()._read_on(session_id, max(after, newest - 3), limit)


class JoinsWhatHasNoEnd(SqliteStore):
    """Takes text for safe elsewhere that is nowhere else."""

    async def _plan_on(self, plan: ThinningPlan, session_id: str, *, key: int, after: int) -> int:
        last = await super()._plan_on(plan, session_id, key=key, after=after)
        deltas = [one for one in await self.read(session_id) if isinstance(one.event, TextDelta)]
        unsettled = [one.seq for one in deltas if cast("TextDelta", one.event).segment == 1]
        plan.due.append(Stretch(unsettled[0], unsettled[-1], 0))
        return last


class TakesSharedHistoriesAlong(SqliteStore):
    """A purge that does not ask who else needs what it drops."""

    async def purge(self, session_id: str, **rest: Any) -> bool:
        await self._call(lambda transaction: transaction.execute("delete_piece", {"piece": 1}))
        return await super().purge(session_id, **rest)


class _NeverLooks(Commits):
    def look(self) -> bool:
        return True


class TrustsItsFiles(SqliteStore):
    """Writes on to a database that has lost its name."""

    def __init__(self, path: Path, redactor: Redactor, **settings: Any) -> None:
        super().__init__(path, redactor, **settings)
        connect = partial(_NeverLooks, path, blobs=self._blobs, durability="power", vfs=None)
        self._writer = Writer(path, connect, forget=self._forget)


class _BelievesEveryClock(Commits):
    def write(self, jobs: Sequence[WriteJob]) -> None:
        # That is the fault.
        for head in self._transaction._heads.values():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            head.last_ms = 0
        super().write(jobs)


class TurnsTimeBack(SqliteStore):
    """Keeps events with the times that they came with."""

    def __init__(self, path: Path, redactor: Redactor, **settings: Any) -> None:
        super().__init__(path, redactor, **settings)
        connect = partial(_BelievesEveryClock, path, blobs=self._blobs, durability="power", vfs=None)
        self._writer = Writer(path, connect, forget=self._forget)


@dataclass(frozen=True, slots=True)
class Sabotage:
    """A wrong store and the check that must fail for it; `check` must pass for the right store."""

    promise: str
    wrong: type[SqliteStore]
    check: Check

    async def run(self, folder: Path, *, kind: type[SqliteStore]) -> None:
        async with closed_at_last(SqliteLab(folder, kind=kind)) as lab:
            await self.check(lab)


@asynccontextmanager
async def closed_at_last(lab: SqliteLab) -> AsyncGenerator[SqliteLab]:
    """The lab, whose stores are closed whatever the check finds."""
    try:
        yield lab
    finally:
        await lab.close()


@dataclass(frozen=True, slots=True)
class SabotageOnABadDisk(Sabotage):
    """The same, where the check needs a disk that fails."""

    check: Callable[..., Any]

    async def run(self, folder: Path, *, kind: type[SqliteStore]) -> None:
        with LossyVFS("sabotaged") as vfs:
            break_disk = partial(vfs.fail_sync_after, 0)
            async with closed_at_last(SqliteLab(folder, vfs=vfs.name, kind=kind)) as lab:
                await self.check(lab, break_disk=break_disk)


SABOTAGES: tuple[Sabotage, ...] = (
    SabotageOnABadDisk("P1", PublishesBeforeCommit, check_nothing_refused_is_ever_shown),
    Sabotage("P1", IgnoresTheFence, check_a_lost_fence_writes_nothing),
    Sabotage("P1", JoinsWhatHasNoEnd, check_thinning_takes_no_text_from_anyone),
    Sabotage("P2", TakesSharedHistoriesAlong, check_a_purge_leaves_the_histories_of_others_whole),
    Sabotage("P1", TrustsItsFiles, check_what_was_shown_outlives_its_file),
    Sabotage("P2", TrustsItsFiles, check_what_was_accepted_outlives_its_file),
    Sabotage("P2", ForgetsKeys, check_a_key_has_one_effect),
    Sabotage("P4", IgnoresConditions, check_a_condition_has_one_winner),
    Sabotage("P7", TurnsTimeBack, check_time_never_goes_back),
    Sabotage("P7", SkipsOne, check_a_follower_misses_and_repeats_nothing),
    Sabotage("P7", RepeatsOne, check_a_follower_misses_and_repeats_nothing),
    Sabotage("P7", ForgetsWhatLeftTheWindow, check_a_follower_misses_and_repeats_nothing),
)
