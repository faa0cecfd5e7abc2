"""A session's permission mode in its runs: it applies at once, to sub-agents too, and ends with a plan."""

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agent.world import World, messages, process, roles, send, tool_ends
from features.undo.world import Changes, write
from holdfast import events as e
from holdfast.agent.calls import MODE_CHANGED
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.events.modes import mode_set
from holdfast.features.delegation.tools import child_tools
from holdfast.features.plans.run import UpdatePlan
from holdfast.features.undo.scan import ScanLimits
from holdfast.features.undo.snapshots import Snapshots
from holdfast.folds import session
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import PLAN_MODE
from holdfast.runner.asks import Answered, ApprovalVerdict
from holdfast.runner.session_modes import SessionModes
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.patches import ApplyPatch
from holdfast.values import ApprovalMode, Choice
from stores import MemoryStore

WRITE = CallTool("write_file", {"path": "new.txt", "content": "x"})


def judge_in(mode: ApprovalMode, tmp_path: Path, snapshots: Snapshots | None = None) -> ConfiguredJudge:
    home = tmp_path / "home"
    if snapshots is None:
        return ConfiguredJudge(mode=mode, home=home)
    return ConfiguredJudge(mode=mode, home=home, undoable=snapshots.covers)


def work_in(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


async def state(world: World, session_id: str = "s") -> session.Session:
    return session.fold((record.seq, record.event) for record in await world.log(session_id))


async def test_a_stricter_mode_counts_for_an_action_that_a_person_then_approves(tmp_path: Path) -> None:
    """P8, P13: the person approved it before they looked again; plan mode reads only."""
    work = work_in(tmp_path)
    judge = judge_in("ask", tmp_path)
    async with (
        ChaosServer([WRITE], [Say("done")]) as chaos,
        process(chaos, WriteFile(FilesSeen()), judge=judge) as world,
    ):
        await send(world, workspace=str(work))
        asked = (await world.until("s", e.ApprovalAsked))[-1].event
        assert isinstance(asked, e.ApprovalAsked)
        modes = SessionModes(world.inbox, judge, world.clock)
        assert await modes.put("s", "plan", by="ann")
        await world.inbox.answer(asked.approval_id, ApprovalVerdict("once"))
        log = await world.until("s", e.RunEnded)
    assert [(end.ending, end.result) for end in tool_ends(log)] == [("denied", PLAN_MODE)]
    assert not (work / "new.txt").exists()


async def test_a_persons_answer_to_a_pending_approval_counts_in_unattended(tmp_path: Path) -> None:
    """P8: unattended means that no one is asked, and here someone has answered; later calls are denied."""
    work = work_in(tmp_path)
    judge = judge_in("ask", tmp_path)
    async with (
        ChaosServer([WRITE], [WRITE], [Say("done")]) as chaos,
        process(chaos, WriteFile(FilesSeen()), judge=judge) as world,
    ):
        await send(world, workspace=str(work))
        asked = (await world.until("s", e.ApprovalAsked))[-1].event
        assert isinstance(asked, e.ApprovalAsked)
        assert await SessionModes(world.inbox, judge, world.clock).put("s", "unattended", by="ann")
        await world.inbox.answer(asked.approval_id, ApprovalVerdict("once"))
        log = await world.until("s", e.RunEnded)
    assert [end.ending for end in tool_ends(log)] == ["finished", "no_approver"]
    assert (work / "new.txt").exists()


class Tightens(MemoryStore):
    """A store in which a person chooses plan mode at the last moment before a tool starts."""

    def __init__(self, disk: MemoryDisk, mode: ApprovalMode) -> None:
        super().__init__(disk)
        self._mode: ApprovalMode = mode

    @override
    async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        if any(isinstance(event, e.ToolStarted) for event in events):
            await self.append(session_id, [mode_set(self._mode, at_ms=0, by="ann")])
        return await super().append_run(session_id, events, **rest)


async def test_a_stricter_mode_counts_between_the_verdict_and_the_execution(tmp_path: Path) -> None:
    """P13: the log decides which of them came first."""
    work = work_in(tmp_path)
    modes: tuple[tuple[ApprovalMode, bool], ...] = (("plan", False), ("ask", False), ("workspace", True))
    for mode, is_written in modes:
        disk, judge = MemoryDisk(), judge_in("workspace", tmp_path)
        async with (
            ChaosServer([WRITE], [Say("done")]) as chaos,
            process(chaos, WriteFile(FilesSeen()), judge=judge, store=Tightens(disk, mode)) as world,
        ):
            await send(world, workspace=str(work))
            log = await world.until("s", e.RunEnded)
        (end,) = tool_ends(log)
        assert (end.result == MODE_CHANGED) is not is_written
        assert (work / "new.txt").exists() is is_written


async def test_edits_asks_when_the_workspace_has_no_snapshot(tmp_path: Path) -> None:
    """P13: undo covers the file by its name, but there is nothing to restore it from."""
    work = work_in(tmp_path)
    for is_stored in (True, False):
        snapshots = await asyncio.to_thread(Snapshots, tmp_path / "snapshots")
        judge = judge_in("edits", tmp_path, snapshots)
        async with (
            ChaosServer([WRITE], [Say("done")]) as chaos,
            process(
                chaos,
                WriteFile(FilesSeen()),
                judge=judge,
                features={"undo": snapshots} if is_stored else {},
            ) as world,
        ):
            await send(world, workspace=str(work))
            log = await world.until("s", e.RunEnded if is_stored else e.ApprovalAsked)
            assert (e.ApprovalAsked in {type(record.event) for record in log}) is not is_stored
        assert (work / "new.txt").exists()
        await asyncio.to_thread(snapshots.store.close)


async def test_edits_asks_about_files_that_the_snapshot_lacks(tmp_path: Path) -> None:
    """P13: a change of the ignore rules within the turn doesn't put old files into its snapshot."""
    work = work_in(tmp_path)
    unignore = CallTool("change")
    edit = CallTool(
        "edit_file", {"path": "a.txt", "old_text": "a", "new_text": "a" * 90, "replace_all": True}
    )
    rows: tuple[tuple[list[CallTool], str], ...] = (
        ([unignore, _write("old/x.txt", "lost")], "old/x.txt"),
        ([unignore, _write("old/new.txt", "x")], "old/new.txt"),
        ([_write(".gitignore", "")], ".gitignore"),
        ([_write("a.txt", "x" * 101)], "a.txt"),
        ([_write("large.txt", "é" * 51)], "large.txt"),
        ([edit], "a.txt"),
        ([unignore, _patch("*** Delete File: old/x.txt")], "old/x.txt"),
        ([_patch("*** Update File: a.txt", "-aa", "+" + "a" * 90)], "a.txt"),
        ([_patch("*** Update File: a.txt", "-aa", "+b", "*** Add File: b.txt", "+b")], ""),
        ([unignore, _write("a.txt", "x" * 100), _write("new.txt", "x")], ""),
    )
    for number, (calls, asked_about) in enumerate(rows):
        (work / "old").mkdir(exist_ok=True)
        (work / "old" / "x.txt").write_text("precious")
        (work / ".gitignore").write_text("old/\n")
        (work / "a.txt").write_text("aa")
        tool = Changes([write(".gitignore", "")])
        folder = tmp_path / f"snapshots{number}"
        snapshots = await asyncio.to_thread(Snapshots, folder, limits=ScanLimits(file_bytes=100))
        judge = judge_in("edits", tmp_path, snapshots)
        judge = dataclasses.replace(judge, rules=(ApprovalRule("allow", "change"),))
        files = FilesSeen()
        async with (
            ChaosServer(calls, [Say("done")]) as chaos,
            process(
                chaos,
                tool,
                WriteFile(files),
                EditFile(files),
                ApplyPatch(files),
                judge=judge,
                features={"undo": snapshots},
            ) as world,
        ):
            await send(world, workspace=str(work))
            await world.until("s", e.ApprovalAsked if asked_about else e.RunEnded)
            asked = [row.event for row in await world.log("s") if isinstance(row.event, e.ApprovalAsked)]
            assert [one.action.paths for one in asked] == (
                [(f"{work}/{asked_about}",)] if asked_about else []
            )
        assert (work / "old" / "x.txt").read_text() == "precious"
        await asyncio.to_thread(snapshots.store.close)


def _patch(*lines: str) -> CallTool:
    return CallTool("apply_patch", {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])})


def _write(path: str, content: str) -> CallTool:
    return CallTool("write_file", {"path": path, "content": content})


async def test_active_sub_agents_get_the_stricter_mode_of_their_parent_at_once(tmp_path: Path) -> None:
    """P13: what was delegated in one mode doesn't go on in it."""
    work, gate = work_in(tmp_path), Gate()

    def choose(request: SeenRequest) -> Script:
        is_child = any("task" in str(one["content"]) for one in messages(request) if one["role"] == "user")
        if is_child:
            return [Say("done")] if "tool" in roles(request) else [Wait(gate), WRITE]
        return [Say("done")] if "tool" in roles(request) else [CallTool("delegate", {"task": "the task"})]

    judge = judge_in("workspace", tmp_path)
    async with (
        ChaosServer(choose=choose) as chaos,
        process(chaos, WriteFile(FilesSeen()), *child_tools(), judge=judge) as world,
    ):
        await send(world, workspace=str(work))
        await gate.reached()
        (child_id,) = (await state(world)).children
        assert (await state(world, child_id)).approval_mode == ""
        modes = SessionModes(world.inbox, judge, world.clock)
        assert await modes.put("s", "plan", by="ann")
        assert (await state(world, child_id)).approval_mode == "plan"
        # A looser mode of the parent changes nothing for those that are active.
        assert await modes.put("s", "workspace", by="ann")
        assert (await state(world, child_id)).approval_mode == "plan"
        gate.open()
        log = await world.until(child_id, e.RunEnded)
    assert [end.result for end in tool_ends(log)] == [PLAN_MODE]
    assert not (work / "new.txt").exists()


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_new_run_of_an_ended_sub_agent_has_the_stricter_mode(
    tmp_path: Path, *, is_cut_off: bool
) -> None:
    """P8, P13: also if the server was killed between the mode of the parent and that of its sub-agent."""
    work = work_in(tmp_path)
    delegate = CallTool("delegate", {"task": "the task"})
    judge = judge_in("workspace", tmp_path)
    async with (
        ChaosServer([delegate], [Say("child")], [Say("done")], [WRITE], [Say("denied")]) as chaos,
        process(chaos, WriteFile(FilesSeen()), *child_tools(), judge=judge) as world,
    ):
        await send(world, workspace=str(work))
        await world.until("s", e.RunEnded)
        (child_id,) = (await state(world)).children
        if is_cut_off:
            await world.inbox.put("s", mode_set("plan", at_ms=world.clock.now_ms(), by="ann"))
        else:
            assert await SessionModes(world.inbox, judge, world.clock).put("s", "plan", by="ann")
            assert (await state(world, child_id)).approval_mode == "plan"
        await send(world, session_id=child_id, workspace=str(work))
        log = await world.until(child_id, e.RunEnded, times=2)
        assert (await state(world, child_id)).approval_mode == "plan"
    assert [end.result for end in tool_ends(log)] == [PLAN_MODE]
    assert not (work / "new.txt").exists()


async def test_a_sub_agents_plan_does_not_loosen_its_mode_beyond_its_parents(tmp_path: Path) -> None:
    """P8, P13: the parent is in plan mode, so its ended sub-agent stays in it."""
    judge, plan = judge_in("ask", tmp_path), CallTool("update_plan", {"steps": [{"text": "write"}]})
    delegate = CallTool("delegate", {"task": "the task"})
    async with (
        ChaosServer([delegate], [Say("child")], [Say("done")], [plan], [Say("done")]) as chaos,
        process(chaos, UpdatePlan(), *child_tools(), judge=judge) as world,
    ):
        await send(world)
        await world.until("s", e.RunEnded)
        (child_id,) = (await state(world)).children
        assert await SessionModes(world.inbox, judge, world.clock).put("s", "plan", by="ann")
        await send(world, session_id=child_id, plan_first=True)
        (*_, asked) = [r.event for r in await world.until(child_id, e.ApprovalAsked)]
        assert isinstance(asked, e.ApprovalAsked)
        verdict = ApprovalVerdict("once", by="ann", mode_max="workspace")
        assert isinstance(await world.inbox.answer(asked.approval_id, verdict), Answered)
        await world.until(child_id, e.RunEnded, times=2)
        assert (await state(world, child_id)).approval_mode == "plan"


async def test_an_accepted_plan_ends_plan_mode_and_a_refused_one_does_not(tmp_path: Path) -> None:
    """P8, P13: in one append with the answer, so that a crash can't separate them."""
    work = work_in(tmp_path)
    plan = CallTool("update_plan", {"steps": [{"text": "write", "state": "pending"}]})
    configurations: tuple[tuple[ApprovalMode, str], ...] = (("ask", ""), ("plan", "ask"))
    answers: tuple[tuple[int, Choice], ...] = ((1, "deny"), (2, "once"))
    for configured, after in configurations:
        judge = judge_in(configured, tmp_path)
        async with (
            ChaosServer([WRITE], [plan], [plan], [WRITE], [Say("done")]) as chaos,
            process(chaos, WriteFile(FilesSeen()), UpdatePlan(), judge=judge) as world,
        ):
            if configured == "ask":
                await world.store.append("s", [e.SessionCreated(at_ms=0, epoch="e", workspace=str(work))])
                assert await SessionModes(world.inbox, judge, world.clock).put("s", "plan", by="ann")
            await send(world, workspace=str(work))
            for times, choice in answers:
                log = await world.until("s", e.ApprovalAsked, times=times)
                asked = [one.event for one in log if isinstance(one.event, e.ApprovalAsked)][-1]
                assert asked.action.tool == "update_plan"
                await world.inbox.answer(asked.approval_id, ApprovalVerdict(choice, by="ann", mode_max="ask"))
                await world.until("s", e.ToolEnded, times=times + 1)
                in_plan_mode = (await state(world)).approval_mode == ("" if configured == "plan" else "plan")
                assert in_plan_mode is (choice == "deny")
            assert ((await state(world)).approval_mode, (await state(world)).mode_set_by) == (after, "ann")
            log = await world.until("s", e.ApprovalAsked, times=3)
        assert tool_ends(log)[0].result == PLAN_MODE
        assert not (work / "new.txt").exists()
