"""Hooks check tool calls and runs: they can deny and add context, and never allow."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NoReturn

import pytest

from agent.world import CrashingStore, Effect, World, asks_about, ending, kinds, messages, send, tool_ends
from fakes.crash import Crashed, CrashPoint
from features.hooks.world import Hooks
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.decisions.outside_sources import outside_sources
from holdfast.features.hooks.calls import ANSWER_BYTES_MAX
from holdfast.features.hooks.events import HookEnded, HookStarted
from holdfast.features.hooks.hooks import FILE
from holdfast.folds import session, transcript
from holdfast.interfaces.journal import JournalError, Record
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.tools.shell.scope import find_marked
from sandbox.confined_world import HAS_BUBBLEWRAP, confined_world
from stores import MemoryStore
from tables import for_each_row
from tools.calls import until

ACT = CallTool("act", {"n": 1})


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


def outcomes(log: Sequence[Record]) -> list[tuple[str, str]]:
    return [(one.event.hook, one.event.outcome) for one in log if isinstance(one.event, HookEnded)]


async def test_a_hook_denies_a_call_with_a_reason_that_the_model_sees(hooks: Hooks) -> None:
    """P13: what a hook denies isn't done, whatever was approved."""
    hooks.answers(deny="not on Fridays")
    receiver: list[str] = []
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", receiver), own=(hooks.own("before_tool"),)) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    [end] = tool_ends(log)
    assert (end.result, end.ending) == ("Not run: the hook 'before-tool' denied it: not on Fridays", "denied")
    assert receiver == []
    assert end.result in str(messages(chaos.seen.requests[1]))
    [call] = hooks.calls()
    assert call["tool"] == {"id": end.tool_call_id, "name": "act", "arguments": {"n": 1}}
    assert (call["on"], call["workspace"]) == ("before_tool", str(hooks.workspace))
    order = [kind for kind in kinds(log) if kind in {HookStarted, HookEnded, e.ToolEnded}]
    assert order == [HookStarted, HookEnded, e.ToolEnded]


async def test_a_hook_can_not_allow(hooks: Hooks) -> None:
    """P8: a call that needs an approval still needs it, and its hook runs after the approval."""
    (hooks.folder / "answer").write_text('{"allow": true}')
    receiver: list[str] = []
    own = (hooks.own("before_tool"),)
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", receiver), own=own, judge=asks_about("act")) as world,
    ):
        await send(world)
        await world.until("s", e.ApprovalAsked)
        assert hooks.calls() == []


TROUBLE = [
    ("import sys; sys.exit('no network')", "failed", "exit code 1: no network"),
    ("print('{\"allow\": true}')", "garbled", "it printed no valid answer"),
    ("print('fine')", "garbled", "it printed no valid answer"),
    (f"print('x' * {ANSWER_BYTES_MAX + 1})", "garbled", "it printed more than 64 kB"),
    ("import os; os.kill(os.getpid(), 9)", "failed", "it was killed by signal 9"),
]


@for_each_row("program, outcome, why", TROUBLE)
async def test_a_hook_that_does_not_answer_denies(hooks: Hooks, program: str, outcome: str, why: str) -> None:
    """P13: a failed or garbled hook denies, and the reason names it."""
    receiver: list[str] = []
    own = (hooks.own("before_tool", program=program),)
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", receiver), own=own) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    [end] = tool_ends(log)
    assert end.result.startswith("Not run: the hook 'before-tool' must check each call first, but ")
    assert why in end.result, end.result
    assert outcomes(log) == [("before-tool", outcome)]
    assert receiver == []


async def test_a_late_hook_denies_and_its_processes_are_dead(hooks: Hooks) -> None:
    """P3, P13: a hook that doesn't end is killed at its deadline."""
    own = (hooks.own("before_tool", program="import time; time.sleep(600)", deadline_s=0.2),)
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", []), own=own) as world,
    ):
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
        assert not await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
    [end] = tool_ends(log)
    assert end.result.endswith("but it didn't end within 0.2 s.")


async def test_the_context_of_a_hook_is_shown_as_untrusted(hooks: Hooks) -> None:
    """P11: a hook's output counts as outside content."""
    hooks.answers(context="the build is red")
    own = tuple(hooks.own(on) for on in ("run_start", "before_tool", "after_tool", "run_end"))
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", []), own=own) as world,
    ):
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
    assert [call["on"] for call in hooks.calls()] == ["run_start", "before_tool", "after_tool", "run_end"]
    first, second = (messages(request) for request in chaos.seen.requests)
    assert second[: len(first)] == first
    notes = str(second).count("[Output of the hook '")
    assert notes == str(second).count("the build is red") == 3  # the end of the run shows the model nothing
    pairs = [(record.seq, record.event) for record in log]
    sources = outside_sources(session.fold(pairs), transcript.fold(pairs), run_id)
    assert "the output of the hook run-start" in sources
    after, end = hooks.calls()[2:]
    assert after["result"] == {"ok": True, "text": "act done", "ending": "finished"}
    assert (end["outcome"], end["output"]) == ("completed", "ok")


async def test_a_denied_run_calls_no_model(hooks: Hooks) -> None:
    hooks.answers(deny="the quota is used up")
    async with ChaosServer() as chaos, hooks.runs(chaos, own=(hooks.own("run_start"),)) as world:
        await send(world)
        ended = ending(await world.until("s", e.RunEnded))
    assert (ended.outcome, ended.cause) == ("failed", "hook")
    assert ended.failure is not None
    assert ended.failure.text == "The hook 'run-start' denied this run: the quota is used up"
    assert chaos.seen.requests_seen == 0


async def test_only_hooks_for_the_tool_are_called_and_all_must_agree(hooks: Hooks) -> None:
    own = (
        hooks.own("before_tool", tools=("shell", "mcp_*")),
        hooks.own("before_tool", program="pass", tools=("a*",)),
        hooks.own("before_tool", program='print(\'{"deny": "second"}\')'),
    )
    async with (
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", []), own=own) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    assert hooks.calls() == []
    assert [outcome for _, outcome in outcomes(log)] == ["finished", "denied"]


async def test_a_stop_kills_the_hook_before_the_run_is_cancelled(hooks: Hooks) -> None:
    """P5: a hook and its children are dead when the stop is reported."""
    pids = hooks.folder / "pids"
    program = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} ')\n"
        "time.sleep(600)"
    )
    own = (hooks.own("before_tool", program=program, deadline_s=600.0),)
    async with (
        ChaosServer([ACT]) as chaos,
        hooks.runs(chaos, Effect("act", []), own=own) as world,
    ):
        run_id = await send(world)
        await world.until("s", HookStarted)
        await until(lambda: pids.exists() and pids.read_text().endswith(" "))
        await world.inbox.stop("s", run_id)
        log = await world.until("s", e.RunEnded)
        alive = await asyncio.to_thread(find_marked, lambda marker: marker.run_id == run_id)
    assert ending(log).outcome == "cancelled"
    assert not alive
    assert outcomes(log) == [("before-tool", "stopped")]


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_a_crash_at_any_append_is_only_a_pause(tmp_path: Path, *, after: bool) -> None:
    """P6: an interrupted hook is reported as unknown; the effect happens once, and always after its check."""
    nth = 0
    for nth in count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        hooks, disk, crash, receiver = Hooks(folder), MemoryDisk(), CrashPoint(nth), list[str]()
        async with ChaosServer(choose=_script) as chaos:
            await _live(hooks, chaos, disk, receiver, crash=crash, after=after)
            await _live(hooks, chaos, disk, receiver, crash=CrashPoint(10_000), after=False)
        log = list(await MemoryStore(disk).read("s", limit=10_000))
        assert ending(log).outcome == "completed", nth
        [end] = tool_ends(log)
        assert len(receiver) == 1 or end.ending == "unknown", (nth, receiver)
        started = [one.event.hook_call_id for one in log if isinstance(one.event, HookStarted)]
        ended = [one.event.hook_call_id for one in log if isinstance(one.event, HookEnded)]
        assert sorted(started) == sorted(ended), nth
        calls = [call["on"] for call in hooks.calls()]
        assert calls.count("after_tool") <= 1, nth
        assert calls.count("run_end") <= 1, nth
        if "act {'n': 1}" in receiver:
            assert "before_tool" in calls, nth
        if not crash.has_crashed:
            break
    assert nth > 8


def _script(request: SeenRequest) -> Script:
    return [Say("ok")] if any(one["role"] == "tool" for one in messages(request)) else [ACT]


async def _live(
    hooks: Hooks, chaos: ChaosServer, disk: MemoryDisk, receiver: list[str], *, crash: CrashPoint, after: bool
) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=after)
    own = tuple(hooks.own(on) for on in ("run_start", "before_tool", "after_tool", "run_end"))
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with hooks.runs(chaos, Effect("act", receiver), own=own, store=store) as world:
            using = asyncio.create_task(_use(world))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({using, dead}, return_when=asyncio.FIRST_COMPLETED)
            using.cancel()
            dead.cancel()
            await asyncio.wait({using, dead})


async def _use(world: World) -> None:
    """Send the message if it wasn't accepted yet, and wait for the end."""
    if not await world.store.last_seq("s"):
        await send(world)
    await world.until("s", e.RunEnded)


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
async def test_a_trusted_hook_of_a_workspace_runs_in_the_sandbox(hooks: Hooks, tmp_path: Path) -> None:
    """P13: it writes nothing outside the workspace, and its context counts as outside content."""
    outside = hooks.folder / "outside"
    hooks.of_workspace(f'touch {outside}; touch inside; echo \'{{"deny": "checked"}}\'')
    await hooks.trust()
    (tmp_path / "confined").mkdir()
    async with (
        confined_world(tmp_path / "confined") as confined,
        ChaosServer([ACT], [Say("ok")]) as chaos,
        hooks.runs(chaos, Effect("act", []), shell=confined.shell) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    [end] = tool_ends(log)
    assert end.result == "Not run: the hook 'check' denied it: checked"
    assert (hooks.workspace / "inside").exists()
    assert not outside.exists()


async def test_hooks_of_a_workspace_need_a_sandbox(hooks: Hooks) -> None:
    """P13: without one, a trusted hook doesn't run, so the call is denied."""
    hooks.of_workspace("touch ran")
    await hooks.trust()
    async with ChaosServer([ACT], [Say("ok")]) as chaos, hooks.runs(chaos, Effect("act", [])) as world:
        await send(world)
        [end] = tool_ends(await world.until("s", e.RunEnded))
    assert "needs the sandbox" in end.result
    assert not (hooks.workspace / "ran").exists()


async def test_hooks_of_a_workspace_are_not_used_unless_trusted(hooks: Hooks) -> None:
    """P11: a repository can't start programs."""
    hooks.of_workspace("touch ran")
    async with ChaosServer([ACT], [Say("ok")]) as chaos, hooks.runs(chaos, Effect("act", [])) as world:
        await send(world)
        log = await world.until("s", e.RunEnded)
    assert HookStarted not in kinds(log)
    assert ending(log).outcome == "completed"


@pytest.mark.parametrize("changed", [FILE, ".holdfast/hooks/check.sh"])
async def test_changed_hooks_of_a_workspace_stop_runs_until_they_are_trusted_again(
    hooks: Hooks, changed: str
) -> None:
    """P13: a check that the user relies on is never skipped in silence."""
    hooks.of_workspace("exit 0")
    await hooks.trust()
    with (hooks.workspace / changed).open("a") as file:
        file.write("# changed\n")
    async with ChaosServer([Say("ok")]) as chaos, hooks.runs(chaos) as world:
        await send(world)
        ended = ending(await world.until("s", e.RunEnded))
        assert ended.failure is not None
        assert "changed after you trusted them" in ended.failure.text
        await hooks.trust()
        await send(world)
        log = await world.until("s", e.RunEnded, times=2)
    assert isinstance(log[-1].event, e.RunEnded)
    assert log[-1].event.outcome == "completed"


@pytest.mark.parametrize(
    ("linked", "target"),
    [(".holdfast", "moved"), (FILE, "moved"), (".holdfast", "nowhere"), (FILE, "nowhere")],
)
async def test_a_link_does_not_switch_off_the_hooks_of_a_workspace(
    hooks: Hooks, linked: str, target: str
) -> None:
    """P13: a pulled commit can contain links."""
    hooks.of_workspace("exit 0")
    await hooks.trust()
    place = hooks.workspace / linked
    place.rename(hooks.folder / "moved")
    place.symlink_to(hooks.folder / target)
    async with ChaosServer([Say("ok")]) as chaos, hooks.runs(chaos) as world:
        await send(world)
        ended = ending(await world.until("s", e.RunEnded))
    assert ended.failure is not None
    assert ("don't exist" if target == "nowhere" else "after you trusted them") in ended.failure.text
    assert not chaos.seen.requests
    assert await asyncio.to_thread(hooks.book.forget, hooks.workspace / FILE)
    assert not await asyncio.to_thread(hooks.book.knows, hooks.workspace / FILE)
