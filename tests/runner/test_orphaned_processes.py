"""What a dead server left running, when another one on the same machine goes on with its runs."""

import asyncio
import subprocess
from secrets import token_hex

from holdfast import events as e
from holdfast.folds import session
from holdfast.folds.run import Run
from holdfast.runner.orphaned_processes import OrphanedProcesses
from holdfast.tools.shell.marker import foreground, marked
from holdfast.tools.shell.scope import find_marked
from journal.sample import AT_MS, created, message, queued, started
from tools.calls import ENVIRONMENT, until


def in_a_call(run_id: str) -> Run:
    """A run in the middle of its tool call."""
    log = [
        created(),
        message("hi"),
        queued(run_id),
        e.MessageDispatched(at_ms=AT_MS, run_id=run_id, message_id="m1"),
        started(run_id),
        e.CallStarted(at_ms=AT_MS, run_id=run_id, call_id="c", turn=1),
        e.AttemptStarted(at_ms=AT_MS, run_id=run_id, attempt_id="a", call_id="c", target="t", model="m"),
        e.ToolAsked(at_ms=AT_MS, run_id=run_id, tool_call_id="call", name="shell", args={}),
        e.CallEnded(at_ms=AT_MS, run_id=run_id, call_id="c", finish="tools"),
        e.ToolStarted(at_ms=AT_MS, run_id=run_id, tool_call_id="call", effect_key="k"),
    ]
    return session.fold(list(enumerate(log, 1))).runs[run_id]


async def test_what_another_server_left_is_killed_also_if_it_died_after_the_first_take_over() -> None:
    """P7: nothing of the dead server's call goes on beside the run that another one continues."""
    orphans = OrphanedProcesses(others=True)
    await orphans.end(in_a_call(f"run_{token_hex(4)}"))
    run_id = f"run_{token_hex(4)}"
    marker = foreground(run_id, "call")
    command = ["sleep", "1000"]
    left = await asyncio.to_thread(subprocess.Popen, command, env=marked(ENVIRONMENT, marker))
    try:
        await until(lambda: bool(find_marked(marker.__eq__)))
        await orphans.end(in_a_call(run_id))
        assert await asyncio.to_thread(left.wait, 10) < 0
    finally:
        left.kill()
        await asyncio.to_thread(left.wait)
