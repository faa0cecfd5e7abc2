"""An approval is one exact action: what changed is asked about anew, and silence allows nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from agent.world import Effect, World, asks_about, ending, messages, people, process, send, tool_ends
from holdfast import events as e
from holdfast.agent.calls import CHANGED, JUDGED_BYTES_MAX, TOO_MUCH
from holdfast.agent.deps import DrainGate
from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.interfaces.ids import grant_of_approval
from holdfast.interfaces.journal import Appended, Declined, Record, Replayed
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.redaction import Redactor
from holdfast.runner.asks import Answered, ApprovalVerdict, Stale
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.patches import ApplyPatch
from holdfast.values import Action, Choice
from server.toolbox import CountedShell
from serving import AsksAbout
from stores import MemoryStore

READING = ToolTraits(read_only=True, parallel_safe=True)


def asks(log: list[Record]) -> list[e.ApprovalAsked]:
    return [record.event for record in log if isinstance(record.event, e.ApprovalAsked)]


async def asked(world: World, *, times: int = 1) -> e.ApprovalAsked:
    return asks(await world.until("s", e.ApprovalAsked, times=times))[-1]


async def say(
    world: World, about: e.ApprovalAsked, choice: Literal["once", "session", "deny"] = "once"
) -> None:
    assert isinstance(await world.inbox.answer(about.approval_id, ApprovalVerdict(choice)), Answered)


def writing(path: Path, content: str = "new\n") -> CallTool:
    return CallTool("write_file", {"path": path.name, "content": content})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("old\n")
    return path


async def test_a_file_that_changed_after_it_was_shown_is_asked_about_anew(file: Path) -> None:
    """P8: the approved diff is what happens, or nothing."""
    async with (
        ChaosServer([writing(file)], [Say("written")]) as chaos,
        process(
            chaos, WriteFile(FilesSeen()), judge=asks_about("write_file"), workspace=file.parent
        ) as world,
    ):
        await send(world)
        first = await asked(world)
        assert "-old" in first.action.diff
        await asyncio.to_thread(file.write_text, "somebody's work\n")
        await say(world, first)
        second = await asked(world, times=2)
        assert await asyncio.to_thread(file.read_text) == "somebody's work\n"
        assert "-somebody's work" in second.action.diff
        assert second.findings[0] == CHANGED
        assert second.approval_id != first.approval_id
        await say(world, second)
        log = await world.until("s", e.RunEnded)
        assert await asyncio.to_thread(file.read_text) == "new\n"
        assert len(asks(log)) == 2


@pytest.mark.parametrize("tool", [WriteFile(FilesSeen()), EditFile(FilesSeen())], ids=["write", "edit"])
async def test_a_file_that_changes_while_the_approved_change_begins_is_left_alone(
    file: Path, tool: WriteFile | EditFile
) -> None:
    """P8: between the last look of the policy and the effect lies an append, and the effect looks itself."""

    class Meddling(MemoryStore):
        async def append_run(
            self, session_id: str, events: Sequence[e.Event], **more: Any
        ) -> Appended | Declined | Replayed:
            if any(isinstance(event, e.ToolStarted) for event in events):
                await asyncio.to_thread(file.write_text, "old\nand somebody's work\n")
            return await super().append_run(session_id, events, **more)

    args = {"path": file.name, "content": "new\n"}
    if isinstance(tool, EditFile):
        args = {"path": file.name, "old_text": "old", "new_text": "new"}
    async with (
        ChaosServer([CallTool(tool.spec.name, args)], [Say("left it")]) as chaos,
        process(
            chaos, tool, store=Meddling(), judge=asks_about(tool.spec.name), workspace=file.parent
        ) as world,
    ):
        await send(world)
        await say(world, await asked(world))
        log = await world.until("s", e.RunEnded)
        (ended,) = tool_ends(log)
        assert not ended.ok
        assert "has changed since this was approved" in ended.result
        assert await asyncio.to_thread(file.read_text) == "old\nand somebody's work\n"


async def test_a_change_that_no_diff_shows_is_asked_about_anew(file: Path) -> None:
    """P8: also where the diff is too long to be shown whole."""
    lines = [f"line {n}\n" for n in range(5_000)]
    await asyncio.to_thread(file.write_text, "".join(lines))
    async with (
        ChaosServer([writing(file, "".join(reversed(lines)))], [Say("left it")]) as chaos,
        process(
            chaos, WriteFile(FilesSeen()), judge=asks_about("write_file"), workspace=file.parent
        ) as world,
    ):
        await send(world)
        first = await asked(world)
        await asyncio.to_thread(file.write_text, "".join(["another\n", *lines[1:]]))
        await say(world, first)
        second = await asked(world, times=2)
        assert second.action.diff == first.action.diff
        await say(world, second, "deny")
        await world.until("s", e.RunEnded)
        assert (await asyncio.to_thread(file.read_text)).startswith("another\n")


@pytest.mark.parametrize("answered", [False, True], ids=["while it is open", "after it was answered"])
async def test_a_file_that_changes_while_no_server_runs_is_asked_about_anew(
    file: Path, *, answered: bool
) -> None:
    """P6, P8: an approval from before a restart is for what was shown then."""
    disk, drain = MemoryDisk(), DrainGate()
    tool, judge = WriteFile(FilesSeen()), asks_about("write_file")
    async with ChaosServer([writing(file)], [Say("written")]) as chaos:
        async with process(
            chaos, tool, judge=judge, store=MemoryStore(disk), workspace=file.parent, drain=drain
        ) as world:
            await send(world)
            first = await asked(world)
            if answered:
                # Nothing more is begun, as when the process ends between the answer and the effect.
                drain.close()
                await say(world, first)
                await world.until("s", e.ApprovalAnswered)
        await asyncio.to_thread(file.write_text, "somebody's work\n")
        async with process(chaos, tool, judge=judge, store=MemoryStore(disk), workspace=file.parent) as world:
            if not answered:
                await say(world, first)
            second = await asked(world, times=2)
            assert second.findings[0] == CHANGED
            assert await asyncio.to_thread(file.read_text) == "somebody's work\n"
            await say(world, second, "deny")
            await world.until("s", e.RunEnded)
            assert await asyncio.to_thread(file.read_text) == "somebody's work\n"


async def test_what_is_granted_for_the_session_is_not_asked_about_again(file: Path) -> None:
    async with (
        ChaosServer([writing(file)], [Say("written")]) as chaos,
        process(
            chaos,
            WriteFile(FilesSeen()),
            judge=AsksAbout(frozenset({"write_file"})),
            workspace=file.parent,
        ) as world,
    ):
        await send(world)
        first = await asked(world)
        await asyncio.to_thread(file.write_text, "somebody's work\n")
        await say(world, first, "session")
        log = await world.until("s", e.RunEnded)
        assert len(asks(log)) == 1
        assert await asyncio.to_thread(file.read_text) == "new\n"


@pytest.mark.parametrize(
    ("choice", "answered"),
    [("once", {"a"}), ("session", {"a", "a again"}), ("always", {"a", "a again", "b"})],
)
async def test_a_stored_rule_answers_the_open_approvals_that_offer_it(
    choice: Choice, answered: set[str], tmp_path: Path
) -> None:
    """P8: for the same action and no other, in its session or in all; the log names the rule."""
    # The same rule is offered for both: it covers the program and the files, whether it appends or replaces.
    same = CallTool("shell", {"command": "echo x >> f"})
    other = CallTool("shell", {"command": "echo x > f"})
    store = MemoryStore()
    judge = ConfiguredJudge(home=tmp_path, always=AlwaysGrants(store))
    scripts = ([same, same], [other], [same])
    async with (
        ChaosServer(*scripts) as chaos,
        process(chaos, CountedShell(), judge=judge, store=store, workspace=tmp_path) as world,
    ):
        found: dict[str, e.ApprovalAsked] = {}
        for session_id, names in (("a", ("a", "a again")), ("other", ("other",)), ("b", ("b",))):
            await send(world, session_id=session_id)
            log = await world.until(session_id, e.ApprovalAsked, times=len(names))
            found |= dict(zip(names, asks(log), strict=True))
        verdict = ApprovalVerdict(choice, by="me")
        result = await world.inbox.answer(found["a"].approval_id, verdict)
        assert isinstance(result, Answered)
        waiting = {row.ask_id for row in await world.store.open_asks()}
        assert {name for name, one in found.items() if one.approval_id not in waiting} == answered
        by_rule = [
            one.event
            for session_id in ("a", "b")
            for one in await world.log(session_id)
            if isinstance(one.event, e.ApprovalAnswered) and one.event.by != "me"
        ]
        rule = grant_of_approval(found["a"].approval_id)
        assert {(one.choice, one.by) for one in by_rule} <= {("once", f"rule {rule}")}
        assert all("echo x" in one.reason for one in by_rule)
        assert len(by_rule) == len(answered) - 1


async def test_two_edits_of_one_file_are_asked_about_one_after_the_other(file: Path) -> None:
    """P8: what the second does is known when the first is done, so each is asked about once."""
    edits = [
        CallTool("edit_file", {"path": file.name, "old_text": "old", "new_text": "newer"}),
        CallTool("edit_file", {"path": file.name, "old_text": "newer", "new_text": "newest"}),
    ]
    async with (
        ChaosServer(edits, [Say("edited")]) as chaos,
        process(chaos, EditFile(FilesSeen()), judge=asks_about("edit_file"), workspace=file.parent) as world,
    ):
        await send(world)
        await say(world, await asked(world))
        second = await asked(world, times=2)
        assert "-newer\n+newest" in second.action.diff
        await say(world, second)
        log = await world.until("s", e.RunEnded)
        assert len(asks(log)) == 2
        assert await asyncio.to_thread(file.read_text) == "newest\n"


NEAR = "*** Begin Patch\n*** Update File: {name}\n@@\n-Old\n+new\n*** End Patch"


async def test_nobody_is_asked_about_an_edit_that_does_not_fit(file: Path, tmp_path: Path) -> None:
    """The model gets the reason at once, with the text that it may have meant."""
    seen = FilesSeen()
    tools = (EditFile(seen), ApplyPatch(seen))
    edits = [
        CallTool("edit_file", {"path": file.name, "old_text": "Old", "new_text": "new"}),
        CallTool("apply_patch", {"input": NEAR.format(name=file.name)}),
    ]
    judge = ConfiguredJudge(mode="ask", home=tmp_path / "home")
    async with (
        ChaosServer(edits, [Say("seen")]) as chaos,
        process(chaos, *tools, judge=judge, workspace=file.parent) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
    assert asks(log) == []
    edit, patch = tool_ends(log)
    assert (edit.ending, patch.ending) == ("not_started", "not_started")
    assert edit.result.startswith("The old text isn't in notes.txt. It must match exactly.\n")
    assert "old" in edit.result
    assert "notes.txt" in patch.result


async def test_an_edit_that_does_not_fit_quotes_no_file_that_needs_approval(tmp_path: Path) -> None:
    """P8, P13: a secret file is asked about, and only then the model gets the reason."""
    secret = tmp_path / ".env"
    await asyncio.to_thread(secret.write_text, "KEY=of-somebody\n")
    edit = CallTool("edit_file", {"path": ".env", "old_text": "KEY=of-nobody", "new_text": "KEY="})
    judge = ConfiguredJudge(mode="ask", home=tmp_path / "home")
    async with (
        ChaosServer([edit], [Say("seen")], [edit], [Say("seen")]) as chaos,
        process(chaos, EditFile(FilesSeen()), judge=judge, workspace=tmp_path) as world,
    ):
        await send(world)
        await say(world, await asked(world), "deny")
        await world.until("s", e.RunEnded)
        await send(world)
        about = await asked(world, times=2)
        await say(world, about)
        log = await world.until("s", e.RunEnded, times=2)
    denied, approved = tool_ends(log)
    assert "it would currently be refused" in about.action.summary
    assert "somebody" not in denied.result
    assert "must match exactly" in approved.result
    assert "KEY=of-somebody" in approved.result


async def test_an_action_that_shows_a_secret_is_the_same_before_and_after_it_was_shown(file: Path) -> None:
    """P8, P11: people are shown it without the secret, and their answer still counts."""
    secret = "key-of-somebody"  # noqa: S105  # it is to be seen nowhere
    await asyncio.to_thread(file.write_text, f"{secret}\n")
    async with (
        ChaosServer([writing(file)], [Say("written")]) as chaos,
        process(
            chaos,
            WriteFile(FilesSeen()),
            judge=asks_about("write_file"),
            secrets=Redactor([secret]),
            workspace=file.parent,
        ) as world,
    ):
        await send(world)
        first = await asked(world)
        assert "-[redacted]" in first.action.diff
        await say(world, first)
        log = await world.until("s", e.RunEnded)
        assert len(asks(log)) == 1
        assert await asyncio.to_thread(file.read_text) == "new\n"


@dataclass(slots=True)
class Dies(Effect):
    """A tool in whose middle the process ends."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        self.receiver.append("begun")
        await asyncio.get_running_loop().create_future()
        raise AssertionError(args, call)


async def test_an_unknown_effect_is_not_repeated_where_nobody_can_be_asked(tmp_path: Path) -> None:
    """P6, P8: refused as no_approver at once, although a rule allows the tool."""
    disk, done = MemoryDisk(), list[str]()
    judge = ConfiguredJudge(mode="unattended", rules=(ApprovalRule("allow", "one"),), home=tmp_path)
    async with ChaosServer([CallTool("one")], [CallTool("one")], [Say("left it")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, Dies("one", done), store=frozen, judge=judge, workspace=tmp_path) as world:
            await send(world)
            await world.until("s", e.ToolStarted)
            await frozen.close()
        async with process(
            chaos, Effect("one", done), store=MemoryStore(disk), judge=judge, workspace=tmp_path
        ) as world:
            log = await world.until("s", e.RunEnded)
            assert ending(log).outcome == "completed"
            assert [ended.ending for ended in tool_ends(log)] == ["unknown", "no_approver"]
            assert not asks(log)
            assert "one {}" not in done


class Suspended(SystemClock):
    """A machine that sleeps: the clock on the wall goes on, and that of the loop does not."""

    slept_ms = 0

    set_ms = 0  # by how much somebody has set the clock on the wall

    def now_ms(self) -> int:
        return super().now_ms() + self.slept_ms + self.set_ms

    def steady_s(self) -> float:
        return super().steady_s() + self.slept_ms / 1000


async def test_a_clock_that_is_set_back_keeps_no_ask_open_for_longer() -> None:
    """P3, P8: it lasts as long as it was to last when it was asked."""
    done, clock = list[str](), Suspended()
    async with (
        ChaosServer([CallTool("one")], [Say("pity")]) as chaos,
        process(
            chaos,
            Effect("one", done),
            judge=asks_about("one"),
            asks_expire_s=60.0,
            ask_poll_s=0.01,
            clock=clock,
        ) as world,
    ):
        await send(world)
        await asked(world)
        clock.set_ms = -3_600_000
        clock.slept_ms = 60_000
        log = await world.until("s", e.RunEnded)
        assert [one.ending for one in tool_ends(log)] == ["expired"]
        assert done == []


async def test_an_ask_expires_by_the_clock_on_the_wall_and_then_no_answer_counts() -> None:
    """P8: a laptop that was asleep at the time of the expiry approves nothing when it wakes up."""
    done, clock = list[str](), Suspended()
    async with (
        ChaosServer([CallTool("one")], [Say("pity")]) as chaos,
        process(
            chaos,
            Effect("one", done),
            judge=asks_about("one"),
            asks_expire_s=60.0,
            ask_poll_s=0.01,
            clock=clock,
        ) as world,
    ):
        await send(world)
        about = await asked(world)
        clock.slept_ms = 60_000
        late = ApprovalVerdict("once")
        assert await world.inbox.answer(about.approval_id, late) == Stale(about.approval_id)
        log = await world.until("s", e.RunEnded)
        assert [one.ending for one in tool_ends(log)] == ["expired"]
        assert done == []


async def test_an_expired_ask_ends_the_run_also_for_tools_that_run_side_by_side() -> None:
    """P8: on_expiry = "stop" means the run, whatever the tool."""
    done: list[str] = []
    script = [CallTool("look"), CallTool("see"), CallTool("act")]
    async with (
        ChaosServer(script, [Say("went on")]) as chaos,
        process(
            chaos,
            Effect("look", done, READING),
            Effect("see", done, READING),
            Effect("act", done),
            judge=asks_about("look"),
            asks_expire_s=0.05,
            on_expiry="stop",
        ) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert (ending(log).outcome, ending(log).cause) == ("cancelled", "approval_expired")
        assert sorted(ended.ending for ended in tool_ends(log)) == ["expired", "finished", "not_started"]
        assert done == ["see {}"]
        assert len(chaos.seen.requests) == 1


class Look(Effect):
    """Sees so much that what was said before is summed up."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        return ToolResult("seen " * 2_000)


@pytest.mark.parametrize("name", ["act", "ask_user"])
async def test_an_answer_counts_for_one_call_also_if_the_model_repeats_an_id_that_was_summed_up(
    name: str,
) -> None:
    """P8: once means once, whatever the server calls its calls."""
    done: list[str] = []
    call = CallTool(name, {"text": "which?"}, id="call_0")
    asks_for = iter([[call], [CallTool("look", {}, id="call_1")], [call], [Say("done")]])

    def script(request: SeenRequest) -> Script:
        return [Say("## Task\nin short")] if "Below is" in str(messages(request)[-1]) else next(asks_for)

    async with (
        ChaosServer(choose=script) as chaos,
        process(
            chaos, Effect("act", done), Look("look", []), judge=asks_about("act"), context_window=3_000
        ) as world,
    ):
        await send(world, "long ago " * 200)
        answering = asyncio.create_task(people(world, "s"))
        log = await world.until("s", e.RunEnded)
        answering.cancel()
    events = [record.event for record in log]
    asked_ids = {one.tool_call_id for one in events if isinstance(one, e.ApprovalAsked | e.QuestionAsked)}
    assert any(isinstance(one, e.ContextCompacted) for one in events)
    assert len(asked_ids) == 2
    assert len(tool_ends(log)) == 3
    assert done == (["act {'text': 'which?'}"] * 2 if name == "act" else [])


class Runs(Effect):
    """A tool that runs commands."""

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        return replace(super().action(args, workspace=workspace), argv=("bash", "-c", str(args["command"])))


async def test_one_answer_gives_only_so_much_to_judge() -> None:
    """P10: what is more than that is refused unread, and bodies of documents do not count."""
    done: list[str] = []
    size = JUDGED_BYTES_MAX // 3 - 100
    long = [f"echo {'x' * size} {nth}" for nth in range(5)]
    document = "cat > f <<'E'\n" + "x" * size + "\nE"
    script = [CallTool("act", {"command": text}) for text in (document, *long, document)]
    async with ChaosServer(script, [Say("ok")]) as chaos, process(chaos, Runs("act", done)) as world:
        await send(world)
        ended = tool_ends(await world.until("s", e.RunEnded))
    assert [end.ending for end in ended] == [*["finished"] * 4, "denied", "denied", "finished"]
    assert len(done) == 5
    assert ended[-2].result == TOO_MUCH
