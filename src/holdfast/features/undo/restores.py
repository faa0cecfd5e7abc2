"""Restores files, each time decided by one event on a log.

Before the event, new files are only staged, and a note records the restore. After it, the files are moved
into place, and the note is deleted. So after a crash, the log shows whether to finish or to discard.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.features.undo.object_store import MissingObject
from holdfast.features.undo.packs import DamagedPack
from holdfast.features.undo.planning import CannotUndo, store_plan
from holdfast.features.undo.restore import CannotStage, Plan, Reach, Restored, Restorer, decode_plan
from holdfast.features.undo.snapshots import SnapshotKey, Snapshots
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Appended, Declined, IfRunsOpenBelow, IfSessionKnown, Store
from holdfast.safe_text import shown_path
from holdfast.tools.offload import offload
from holdfast.values import Undo

_log = logging.getLogger(__name__)

OPEN_UNDO = "undo/"  # the prefix of notes about restores in progress, also in the catalog

_FINISH_S = 60.0  # a decided restore is finished, even if no one waits for it anymore


class UndoDone(Struct, frozen=True):
    """The undo is on the log, and the files are in place except those `left`, each with a reason."""

    undo: Undo
    files: tuple[str, ...]
    left: tuple[tuple[str, str], ...]


class RestoreWork(Struct, frozen=True):
    """A plan that is about to be carried out."""

    session_id: str
    undo: Undo
    to_seq: int
    real: str
    plan: Plan


class _OpenUndo(msgspec.Struct):
    """The note about an undo in progress."""

    session_id: str
    undo: Undo
    node: str = ""  # whose files it changes


class Restores:
    """The restorations of one data directory."""

    def __init__(
        self, store: Store, snapshots: Snapshots, clock: Clock, *, reach: Reach = lambda _: None
    ) -> None:
        self.store = store
        self.snapshots = snapshots
        self._clock = clock
        self._reach = reach

    async def stored_plan(self, undo: Undo) -> Plan:
        """The plan of an undo; raises MissingObject or DamagedPack."""
        read = partial(self.snapshots.store.read, bytes.fromhex(undo.plan), "blob")
        return decode_plan(await offload(read))

    async def carry_out(self, work: RestoreWork, *, decided: Callable[[int], None]) -> UndoDone:
        """Stage, decide, move into place: in this order, so that the restore is atomic across a crash.

        The caller holds the workspace. `decided` gets the seq of the event. Raises CannotUndo.
        """
        store, plan, undo = self.store, work.plan, work.undo
        if not plan.steps and undo.keeps_log:
            raise CannotUndo("nothing_to_undo", "The files are already in their earlier state.")
        place = SnapshotKey(work.session_id, undo.run_id, undo.undo_id)
        name, plan_name = await offload(lambda: store_plan(plan, work.real, self.snapshots, place))
        undo = replace(
            undo, files=len(plan.steps), digest=plan.digest, plan=plan_name.hex(), snapshot=name.hex()
        )
        restorer = self._restorer(work.real, plan, undo)
        note = OPEN_UNDO + undo.undo_id
        await store.put_note(note, msgspec.json.encode(_OpenUndo(work.session_id, undo, store.node.name)))
        try:
            await offload(restorer.stage)
        except CannotStage as error:
            await store.drop_note(note)
            raise CannotUndo("workspace_unwritable", f"Nothing was changed: {error}.") from error
        self._reach("decide")
        rewound = e.SessionRewound(at_ms=self._clock.now_ms(), to_seq=work.to_seq, undo=undo)
        result = await store.append(work.session_id, [rewound], when=[IfSessionKnown(), IfRunsOpenBelow(1)])
        if not isinstance(result, Appended):
            await offload(restorer.discard)
            await store.drop_note(note)
            is_busy = isinstance(result, Declined) and isinstance(result.condition, IfRunsOpenBelow)
            raise busy() if is_busy else CannotUndo("session_deleted", "The session is deleted.")
        self._reach("decided")
        self.snapshots.turns.restore((undo.run_id, *undo.runs), work.real)
        decided(result.last_seq)
        restored = await offload(restorer.apply, linger_s=_FINISH_S)
        await store.drop_note(note)
        return _done(undo, plan, restored)

    def _restorer(self, real: str, plan: Plan, undo: Undo) -> Restorer:
        blob = partial(self.snapshots.store.read, kind="blob")
        return Restorer(real, plan, undo_id=undo.undo_id, blob=blob, reach=self._reach)

    async def finish_open(self) -> None:
        """Finish or forget what a crash left, as the log says; call it before runs are resumed."""
        for note, value in (await self.store.notes(OPEN_UNDO)).items():
            open_undo = msgspec.json.decode(value, type=_OpenUndo)
            if open_undo.node != self.store.node.name:
                continue
            try:
                await self._finish(open_undo)
            except (OSError, MissingObject, DamagedPack) as error:
                _log.error("the undo of run %s can't be finished: %s", open_undo.undo.run_id, error)
                continue
            await self.store.drop_note(note)

    async def _finish(self, open_undo: _OpenUndo) -> None:
        undo = open_undo.undo
        async with self.snapshots.workspace(Path(undo.workspace)) as real:
            plan = await self.stored_plan(undo)
            restorer = self._restorer(real, plan, undo)
            if not await self._is_decided(open_undo):
                await offload(restorer.discard)
                _log.warning("the undo of run %s didn't happen: no file was changed", undo.run_id)
                return
            left = (await offload(restorer.apply)).left
            also = f"; {len(left)} changed meanwhile and were left alone" if left else ""
            _log.warning("the undo of run %s is finished after a crash%s", undo.run_id, also)

    async def _is_decided(self, open_undo: _OpenUndo) -> bool:
        """Whether the undo is on the log."""
        at = 0
        while records := await self.store.read(open_undo.session_id, after=at):
            for record in records:
                event = record.event
                undo = event.undo if isinstance(event, e.SessionRewound) else None
                if undo is not None and undo.undo_id == open_undo.undo.undo_id:
                    return True
            at = records[-1].seq
        return False


async def recover(deps: AgentDeps) -> None:
    """Finish or discard the undos that a crash interrupted."""
    await Restores(deps.store, deps.features["undo"], deps.clock).finish_open()


def busy() -> CannotUndo:
    """A run is active."""
    return CannotUndo("session_busy", "A run of this session is active. Stop it, or wait until it ends.")


def _done(undo: Undo, plan: Plan, restored: Restored) -> UndoDone:
    left = {path for path, _ in restored.left}
    files = tuple(shown_path(step.path) for step in plan.steps if step.path not in left)
    return UndoDone(undo, files, tuple((shown_path(path), why) for path, why in restored.left))
