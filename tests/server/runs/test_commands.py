"""Commands that people type: they run in the sandbox without a model, which sees their output later."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.world import messages, tool_ends
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.decisions.outside_sources import outside_sources
from holdfast.folds import session, transcript
from holdfast.interfaces.journal import Record
from holdfast.values import CHAT
from sandbox.confined_world import HAS_BUBBLEWRAP, SECRET, confined_world
from server.access.scoped_keys import OWNER, locked, made
from serving import served, target_of
from stores import MemoryStore

pytestmark = pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="bubblewrap is not installed")


async def log_with(store: MemoryStore, kind: type[e.Event], *, times: int) -> list[Record]:
    """The log of the session once it has this many events of the kind."""
    log: list[Record] = []
    async for records in store.follow("s", after=0):
        log += records
        if sum(isinstance(record.event, kind) for record in log) >= times:
            return log
    raise AssertionError("a log can be followed without end")


async def test_a_typed_command_runs_in_the_sandbox_and_the_model_sees_its_output(tmp_path: Path) -> None:
    """P8, P13: in plan mode too, as it was typed, and only for those who can approve."""
    store = MemoryStore()
    async with confined_world(tmp_path) as world, ChaosServer([Say("I see")]) as chaos:
        os.mkfifo(world.workspace / "gate")
        setting = replace(
            locked(),
            store=store,
            tools=(world.shell,),
            judge=world.judge(mode="plan"),
            workspace=world.workspace,
        )
        async with served(target_of(chaos), setting=setting) as server:
            talker = await made(server, "chat")
            line = "echo made | tee made.txt; cat ../outside/file .env; cat gate"
            body = {"command": line, "session_id": "s", "origin": CHAT}
            for wrong in (body | {"input": "hi"}, body | {"command": " "}, body | {"command": "a\0b"}):
                assert (await server.post("/v1/runs", wrong, **OWNER))[0] == 400
            status, answer = await server.post("/v1/runs", body, **talker)
            assert (status, answer["error"]["code"]) == (403, "missing_scope")
            status, started = await server.post("/v1/runs", body, **OWNER)
            assert status == 202
            await log_with(store, e.ToolStarted, times=1)

            # Nothing that someone else says becomes a command.
            status, queued = await server.post("/v1/runs", body | {"command": "touch queued"}, **OWNER)
            assert status == 202
            waiting = f"/api/sessions/s/queue/{queued['message_id']}"
            edited = await server.call("PATCH", waiting, body={"text": "!touch edited"}, headers=talker)
            assert edited.status == 409
            assert (await server.call("DELETE", waiting, headers=talker)).status == 200
            steer = {"input": "touch steered", "session_id": "s", "when_busy": "steer", "origin": CHAT}
            assert (await server.post("/v1/runs", steer, **OWNER))[1]["status"] == "steered"
            await asyncio.to_thread((world.workspace / "gate").write_text, "opened\n")
            log = await log_with(store, e.RunEnded, times=3)
            status, answer = await server.post(f"/v1/runs/{started['run_id']}/retry", {}, **talker)
            assert (status, answer["error"]["code"]) == (409, "run_is_command")
        there = {path.name for path in world.workspace.iterdir()}
    (end,) = tool_ends(log)
    assert end.ending == "finished"
    assert end.result.startswith("made\n")
    assert SECRET not in end.result
    assert "made.txt" in there
    assert there.isdisjoint({"queued", "edited", "steered"})
    ends = [record.event for record in log if isinstance(record.event, e.RunEnded)]
    assert sorted((one.outcome, one.cause) for one in ends) == [
        ("cancelled", "removed"),
        ("completed", ""),
        ("completed", ""),
    ]
    (request,) = chaos.seen.requests
    said = str(messages(request)[-1]["content"])
    assert said.startswith(f"!{line}\n\n[The user ran this command.")
    assert "opened\n" in said
    assert said.endswith("touch steered")
    pairs = [(record.seq, record.event) for record in log]
    folded, run_id = session.fold(pairs), ends[-1].run_id
    assert outside_sources(folded, transcript.fold(pairs), run_id) == ("the result of the tool shell",)
