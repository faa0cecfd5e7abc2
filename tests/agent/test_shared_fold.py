"""The shared fold of a session whose log has an event that can't follow: no task waits forever."""

import aiohttp
import pytest

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer
from holdfast.codec import encode
from holdfast.folds.phases import IllegalEvent
from holdfast.interfaces.journal import Record
from holdfast.runner.owner_resources import SharedFolds
from server.toolbox import Counted
from serving import AsksAbout, Setting, served, target_of
from stores import MemoryStore

QUEUED = e.RunQueued(at_ms=3, run_id="r", message_id="m")


def records(*events: e.Event) -> list[Record]:
    return [Record("s", seq, body=encode(event), decoded=event) for seq, event in enumerate(events, 1)]


async def test_an_event_that_cant_follow_fails_whoever_waits_now_or_later() -> None:
    """P3: also a task whose condition an earlier event of the same batch has made true."""
    folds = SharedFolds()
    view = folds.of("s")
    waiting = [view.when(lambda: "r" in view.runs), view.when(lambda: False), view.when(lambda: False)]
    waiting[2].cancel()
    said = e.MessageAccepted(at_ms=2, message_id="m", text="hi", mode="send")
    log = records(e.SessionCreated(at_ms=1, epoch="e"), said, QUEUED, QUEUED)
    with pytest.raises(IllegalEvent):
        view.apply(log, after=0)
    for one in waiting[:2]:
        with pytest.raises(IllegalEvent):
            await one
    with pytest.raises(IllegalEvent):
        view.apply(log, after=0)
    with pytest.raises(IllegalEvent):
        await view.until(lambda: False)
    assert folds.of("s") is not view, "a new reader starts over"


async def test_a_run_on_a_damaged_log_ends_its_streams_and_its_status_is_an_error() -> None:
    """P3: a reader that was first to meet the event doesn't keep it from the owner."""
    store, setting = MemoryStore(), Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    async with (
        ChaosServer([CallTool("touch", {})]) as chaos,
        served(target_of(chaos), setting=setting, store=store) as server,
    ):
        run_id = await server.start("hi", session_id="s")
        frames = server.frames(run_id)
        async for frame in frames:
            if frame.data["event"] == "approval.request":
                break
        bad = e.RunQueued(at_ms=3, run_id=run_id, message_id="m")
        await store.append("s", [e.QueuePaused(at_ms=1), bad])
        with pytest.raises(aiohttp.ClientPayloadError):
            await anext(frames)
        assert (await server.call("GET", f"/v1/runs/{run_id}")).status == 500
