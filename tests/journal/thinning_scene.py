"""Logs of old runs, ready to be thinned."""

from collections.abc import Sequence
from typing import cast

from holdfast import events as e
from holdfast.interfaces.journal import Appended, Record, Store
from journal.sample import AT_MS
from scene import Scene

LATE_MS = AT_MS + 1_000_000


def old_run(scene: Scene, run_id: str, *pieces: str) -> Scene:
    """A finished run with a thought and an answer in pieces."""
    scene.send("hi", run_id=run_id)
    scene.call()
    for word in ("let ", "me ", "see"):
        scene.of_run(e.ReasoningDelta, segment=0, text=word)
    scene.of_run(e.ReasoningDone, segment=0, text="let me see")
    scene.pieces(*pieces, segment=1)
    scene.of_run(e.TextDone, segment=1, text="".join(pieces))
    scene.of_run(e.CallEnded, call_id=f"c{scene.calls}", finish="stop")
    scene.ends()
    return scene


def new_scene() -> Scene:
    scene = Scene(ms=AT_MS)
    scene.put(e.SessionCreated, epoch="e")
    return scene


async def stored(store: Store, scene: Scene, session_id: str = "s1") -> None:
    events = [event for _, event in scene.log]
    assert isinstance(await store.append(session_id, cast("list[e.Input]", events)), Appended)


async def thin(store: Store, session_id: str = "s1", *, before_ms: int = LATE_MS) -> int:
    return sum([count async for count in store.thin(session_id, before_ms=before_ms)])


def texts(records: Sequence[Record]) -> list[tuple[int, str]]:
    deltas = (e.TextDelta, e.ReasoningDelta)
    return [(record.seq, record.event.text) for record in records if isinstance(record.event, deltas)]
