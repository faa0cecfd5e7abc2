"""Small wrong parts of a process that runs agents; the check of the promise that each breaks must notice."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import aiohttp
from msgspec.structs import replace
from typing_extensions import override

from agent.world import Effect, World, asks_about, ending, messages, people, process, send, tool_ends
from folds.handed_over import check_a_model_is_shown_exactly_what_was_handed_over
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait, server_error
from holdfast.events import Event
from holdfast.folds.context import context_for
from holdfast.folds.entries import Ending, Notice, Person
from holdfast.folds.transcript import Transcript, fold
from holdfast.interfaces.journal import Fence, Record
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.messages import Message as ModelMessage
from holdfast.messages import UserMessage
from holdfast.models.http import ModelHttp, ModelResponse
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import WireRequest
from holdfast.runner.asks import AnswerResult, ApprovalVerdict, AskAnswer, UnknownAsk
from holdfast.runner.inbox import Inbox, IncomingMessage
from holdfast.runner.slots import Slots
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import Workspace, Workspaces
from holdfast.values import ClientTool, FilePart
from runner.slot_campaign import shared_slots
from sabotage import Sabotage
from scene import begun
from stores import MemoryStore

Make: TypeAlias = Callable[[MemoryDisk], MemoryStore]


class Retells(MemoryStore):
    """Writes something else than it was told."""

    def told(self, event: Event) -> Event:
        """What is written instead."""
        return event

    async def append_run(self, session_id: str, events: Sequence[Event], *, fence: Fence, **rest: Any) -> Any:
        told = [self.told(event) for event in events]
        return await super().append_run(session_id, told, fence=fence, **rest)


# P2: what was accepted is kept


def writes_elsewhere(root: Path) -> Workspace:
    """A workspace that isn't the one of the agent's tools."""
    return Workspace(root / "elsewhere")


async def check_an_attachment_is_where_the_model_is_told(workspaces: Workspaces) -> None:
    """P2: the model is called when the whole file is at the path that it is shown."""
    with TemporaryDirectory() as folder:
        await asyncio.to_thread(Path(folder, "elsewhere").mkdir)
        async with (
            ChaosServer([Say("ok")]) as chaos,
            process(chaos, ReadFile(FilesSeen()), workspace=Path(folder), workspaces=workspaces) as world,
        ):
            blob = await world.store.put_blob(b"PK\0")
            part = FilePart(blob=blob, media_type="application/zip", name="a.zip")
            await world.inbox.send("s", IncomingMessage(text="look", parts=(part,)))
            await world.until("s", e.RunEnded)
        (path,) = re.findall(r"attachments/[\w.-]+\.zip", str(chaos.seen.request(1).body))
        found = await asyncio.to_thread(lambda: list(Path(folder).glob(path)))
        assert [await asyncio.to_thread(one.read_bytes) for one in found] == [b"PK\0"]


# P3: nothing hangs


async def check_an_answer_without_end_is_cut_off(answer_bytes_max: int) -> None:
    """P3: a model that talks and talks is hung up on at a limit that was known."""
    text, records = "on and on " * 2_000, list[Record]()
    async with (
        ChaosServer([Say(text), Hang()]) as chaos,
        process(chaos, answer_bytes_max=answer_bytes_max) as world,
    ):
        await send(world)
        async for more in world.store.follow("s"):
            records.extend(more)
            events = [record.event for record in records]
            heard = sum(len(event.text) for event in events if isinstance(event, e.TextDelta))
            assert heard < len(text), "it is still listening"
            if any(isinstance(event, e.RunEnded) for event in events):
                break
        ended = ending(records)
        assert (ended.outcome, ended.cause) == ("truncated", "answer_bytes_max")
        assert len(chaos.seen.requests) == 1


# P5: stop means stopped


class LeavesItOpen(ModelHttp):
    """Closes no connection before the process ends."""

    @asynccontextmanager
    async def post(self, request: WireRequest, watchdog: Watchdog) -> AsyncGenerator[ModelResponse]:
        yield await self._stack.enter_async_context(super().post(request, watchdog))


async def check_the_model_is_hung_up_on_before_a_run_is_cancelled(http: type[ModelHttp]) -> None:
    """P5: the model's server has seen the end of the connection when the ending is about to be written."""
    gate, open_then = Gate(), list[bool]()
    async with ChaosServer([Say("on and "), Wait(gate)]) as chaos, aiohttp.ClientSession() as other:

        class Looks(MemoryStore):
            async def append_run(self, session_id: str, events: Sequence[Event], **rest: Any) -> Any:
                if any(isinstance(event, e.RunEnded) for event in events):
                    # Who answers something newer has seen whatever came before it.
                    await (await other.get(f"{chaos.base_url}/models")).read()
                    open_then.append(chaos.seen.request(1).connection.closed_s is None)
                return await super().append_run(session_id, events, **rest)

        async with process(chaos, store=Looks(), http=http) as world:
            run_id = await send(world)
            await gate.reached()
            assert await world.inbox.stop("s", run_id)
            assert ending(await world.until("s", e.RunEnded)).outcome == "cancelled"
    assert open_then == [False]


class StopsInName(Inbox):
    """Writes that the run was cancelled, and lets it go on."""

    async def stop(self, session_id: str, run_id: str, **rest: Any) -> bool:
        del rest
        fence = await self._store.claim(session_id)
        ended = e.RunEnded(at_ms=1, run_id=run_id, outcome="cancelled")
        await self._store.append_run(session_id, [ended], fence=fence)
        return True


async def check_nothing_happens_after_a_stop(inbox: type[Inbox]) -> None:
    """P5: no effect and no further word, though the model had more to say."""
    gate, done = Gate(), list[str]()
    script = [Say("I will "), Wait(gate), CallTool("act")]
    async with (
        ChaosServer(script, [Say("ok")], after_last="repeat") as chaos,
        process(chaos, Effect("act", done), inbox=inbox) as world,
    ):
        run_id = await send(world)
        await world.until("s", e.TextDelta)
        assert await world.inbox.stop("s", run_id)
        await world.until("s", e.RunEnded)
        gate.open()
        await chaos.seen.until_ended(1)
        # What the model said before this run's answer would have been heard before it.
        await send(world, session_id="later")
        await world.until("later", e.RunEnded)
        assert isinstance((await world.log("s"))[-1].event, e.RunEnded)
        assert chaos.seen.requests_seen == 2
    assert not done


def shows_whatever_stands_before(transcript: Transcript, run_id: str) -> tuple[ModelMessage, ...]:
    """Takes every message that people see for one that a run has."""
    for run in transcript.runs.values():
        run.has_begun = True
    return context_for(transcript, run_id)


def forgets_what_was_said_meanwhile(transcript: Transcript, run_id: str) -> tuple[ModelMessage, ...]:
    """Takes a run's first message for its only one."""
    shown = context_for(transcript, run_id)
    steers = {one.message.text for one in transcript.entries if isinstance(one, Person)} - {"hi"}
    return tuple(one for one in shown if not (isinstance(one, UserMessage) and one.text in steers))


async def check_a_model_is_shown_what_its_run_was_given(
    show: Callable[[Transcript, str], tuple[ModelMessage, ...]],
) -> None:
    """P5: what was stopped while it waited reaches no model; what was said to the run reaches its own."""
    scene = begun()
    scene.text("one moment")
    scene.stops_while_it_waits("delete it all", run_id="r2")
    scene.say_while_busy("be brief", message_id="m9", mode="steer")
    scene.of_run(e.MessageDispatched, message_id="m9")
    scene.call()
    check_a_model_is_shown_exactly_what_was_handed_over(scene.log, show)


# P6: a crash is a pause


class SaysDone(Retells):
    """Takes what was under way for done."""

    def told(self, event: Event) -> Event:
        if isinstance(event, e.ToolEnded) and event.ending == "unknown":
            return replace(event, ok=True, ending="finished", result="act done")
        return event


async def after_a_crash(traits: ToolTraits, make: Make, *, done: list[str]) -> tuple[e.ToolEnded, str]:
    """How a tool that was running when its process died has ended, and what the model was told of it."""
    disk, begun = MemoryDisk(), asyncio.Event()

    class Dies(Effect):
        async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
            done.append("first")
            begun.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError(args, call)

    async with ChaosServer([CallTool("act")], [Say("ok")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, Dies("act", done, traits), store=frozen) as world:
            await send(world, "do it")
            await begun.wait()
            await frozen.close()
        async with process(chaos, Effect("act", done, traits), store=make(disk)) as world:
            (ended,) = tool_ends(await world.until("s", e.RunEnded))
        return ended, str(messages(chaos.seen.request(2))[-1]["content"])


async def check_an_unknown_effect_is_not_repeated(traits: ToolTraits) -> None:
    """P6: a tool that was running when the process died is not run again by itself."""
    done: list[str] = []
    await after_a_crash(traits, MemoryStore, done=done)
    assert done == ["first"]


async def check_an_unknown_effect_is_said_to_be_unknown(make: Make) -> None:
    """P6: to people and to the model."""
    ended, told = await after_a_crash(ToolTraits(), make, done=[])
    assert (ended.ok, ended.ending) == (False, "unknown")
    assert "whether it took effect is unknown" in told


# P8: an approval is one exact action


class ApprovesByPosition(Inbox):
    """Takes any answer for an answer to whatever is open now."""

    @override
    async def answer(self, ask_id: str, answer: AskAnswer) -> AnswerResult:
        del ask_id
        return await super().answer((await open_approval(self, "s")).approval_id, answer)


class ApprovesInSilence(ApprovesByPosition):
    """Does the same, and reports an unknown ask."""

    @override
    async def answer(self, ask_id: str, answer: AskAnswer) -> AnswerResult:
        await super().answer(ask_id, answer)
        return UnknownAsk(ask_id)


async def open_approval(inbox: Inbox, session_id: str) -> e.ApprovalAsked:
    """The one approval that people can answer now."""
    runs = (await inbox.state(session_id)).runs.values()
    open_asks = [ask.asked for run in runs for ask in run.open_asks]
    return next(asked for asked in open_asks if isinstance(asked, e.ApprovalAsked))


async def check_a_late_answer_approves_nothing(inbox: type[Inbox]) -> None:
    """P8: an answer to another approval does not approve the one that is open."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("act")], [Say("ok")]) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act"), inbox=inbox) as world,
    ):
        await send(world, "do it")
        await world.until("s", e.ApprovalAsked)
        asked = await open_approval(world.inbox, "s")
        late = await world.inbox.answer("apr_expired", ApprovalVerdict("once"))
        assert late == UnknownAsk("apr_expired")
        # Whatever the late answer let happen has happened when the run is over.
        await Inbox.answer(world.inbox, asked.approval_id, ApprovalVerdict("deny"))
        await world.until("s", e.RunEnded)
    assert not done


class ForgetsTheOwner(Retells):
    """Logs every call as one of ours."""

    def told(self, event: Event) -> Event:
        return replace(event, owner="holdfast") if isinstance(event, e.ToolAsked) else event


async def check_a_clients_call_goes_to_the_client(make: Make) -> None:
    """P8, P13: the client runs the calls of its tool, although one of ours has the same name."""
    done: list[str] = []
    script = [CallTool("shell", {"command": "rm -r x"})], [Say("ok")]
    async with (
        ChaosServer(*script) as chaos,
        process(chaos, Effect("shell", done), store=make(MemoryDisk())) as world,
    ):
        await send(world, "do it", client_tools=(ClientTool(name="shell"),))
        client = asyncio.create_task(people(world, "s"))
        log = await world.until("s", e.RunEnded)
        client.cancel()
        await asyncio.wait({client})
    assert not done
    assert any(isinstance(record.event, e.ClientToolsAsked) for record in log)


# P9: quiet when it works, complete when it does not


async def check_success_leaves_no_chatter(chatter: Callable[[World, str], Awaitable[None]]) -> None:
    """P9: two failed tries and an answer: people see the answer and nothing else."""
    gate = Gate()
    script = [[server_error()], [server_error()], [Say("all "), Wait(gate), Say("well")]]
    async with ChaosServer(*script) as chaos, process(chaos) as world:
        run_id = await send(world)
        await gate.reached()
        await chatter(world, run_id)
        gate.open()
        log = await world.until("s", e.RunEnded)
    seen = fold((record.seq, record.event) for record in log)
    assert not [entry for entry in seen.entries if isinstance(entry, Notice)]


async def silent(world: World, run_id: str) -> None:
    del world, run_id


async def chatty(world: World, run_id: str) -> None:
    fence = await world.store.claim("s")
    notice = e.TargetSwitched(at_ms=1, run_id=run_id, from_target="main", to_target="main", why="retrying")
    await world.store.append_run("s", [notice], fence=fence)


class GivesNoReason(Retells):
    """Says that it failed, and not why."""

    def told(self, event: Event) -> Event:
        return replace(event, failure=None) if isinstance(event, e.RunEnded) else event


class HidesTheTries(Retells):
    """Says why it failed, and not what it had tried."""

    def told(self, event: Event) -> Event:
        return replace(event, trace=()) if isinstance(event, e.RunEnded) else event


async def check_a_failure_says_why_and_what_was_tried(make: Make) -> None:
    """P9: people see the reason, and a line for each attempt."""
    async with (
        ChaosServer([server_error()], after_last="repeat") as chaos,
        process(chaos, store=make(MemoryDisk())) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        tried = chaos.seen.requests_seen
    seen = fold((record.seq, record.event) for record in log)
    (end,) = [entry for entry in seen.entries if isinstance(entry, Ending)]
    assert end.failure is not None, "nobody learns why"
    assert end.failure.kind == "server_error"
    assert end.failure.text
    assert [line.partition(" (")[0] for line in end.trace] == [f"attempt {n + 1}" for n in range(tried)]


# P10: no cross-talk


class WaitsOnTheLoop(Effect):
    """Blocks everyone while it works."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        Path(__file__).read_text("utf-8")  # noqa: ASYNC240  # that is the fault
        return await super().run(args, call)


async def check_a_tool_does_not_block_the_loop(kind: type[Effect]) -> None:
    """P10: a tool that blocks the event loop is noticed."""
    async with (
        ChaosServer([CallTool("act")], [Say("ok")]) as chaos,
        process(chaos, kind("act", [])) as world,
    ):
        await send(world, "do it")
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
    assert ended.ok, ended.result


class LooksAtTheLine(Slots):
    """Sees how long the line is, and holds no place in it."""

    @contextmanager
    def reserve(self, *, waiting_max: int, key: str = "") -> Generator[bool]:
        del key
        yield self.waiting < waiting_max


class ForgetsWhoIsComing(Slots):
    """Counts nobody between the storing of a run and its place in the line."""

    def add_pending(self, run_id: str, *, session_id: str, key: str = "") -> None:
        del run_id, session_id, key


class ServesWhoCameFirst(Slots):
    """Gives each slot to the run that has waited for longest."""

    def _next(self) -> Any:
        return next(iter(self._waiting.items()))


async def check_keys_share_slots_fairly(kind: type[Slots]) -> None:
    """P10: no key waits for the whole queue of another."""
    await shared_slots(kind, seed=31, steps=300)


async def check_no_burst_makes_the_line_longer(kind: type[Slots]) -> None:
    """P10: runs that are stored at once are as many as there are slots and places."""
    slots, stored = kind(2), list[str]()

    async def store(run_id: str) -> None:
        with slots.reserve(waiting_max=3) as has_room:
            if not has_room:
                return
            await asyncio.sleep(0)
            slots.add_pending(run_id, session_id=run_id)
            stored.append(run_id)

    for burst in range(2):
        await asyncio.gather(*(store(f"{burst}/{nth}") for nth in range(20)))
    assert len(stored) == 5


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P2", check_an_attachment_is_where_the_model_is_told, Workspace, writes_elsewhere),
    Sabotage("P3", check_an_answer_without_end_is_cut_off, 10_000, sys.maxsize),
    Sabotage("P10", check_no_burst_makes_the_line_longer, Slots, LooksAtTheLine),
    Sabotage("P10", check_keys_share_slots_fairly, Slots, ServesWhoCameFirst),
    Sabotage("P10", check_no_burst_makes_the_line_longer, Slots, ForgetsWhoIsComing),
    Sabotage("P5", check_the_model_is_hung_up_on_before_a_run_is_cancelled, ModelHttp, LeavesItOpen),
    Sabotage("P5", check_nothing_happens_after_a_stop, Inbox, StopsInName),
    Sabotage("P5", check_a_model_is_shown_what_its_run_was_given, context_for, shows_whatever_stands_before),
    Sabotage(
        "P5", check_a_model_is_shown_what_its_run_was_given, context_for, forgets_what_was_said_meanwhile
    ),
    Sabotage("P6", check_an_unknown_effect_is_not_repeated, ToolTraits(), ToolTraits(idempotent=True)),
    Sabotage("P6", check_an_unknown_effect_is_said_to_be_unknown, MemoryStore, SaysDone),
    Sabotage("P8", check_a_late_answer_approves_nothing, Inbox, ApprovesByPosition),
    Sabotage("P8", check_a_late_answer_approves_nothing, Inbox, ApprovesInSilence),
    Sabotage("P8", check_a_clients_call_goes_to_the_client, MemoryStore, ForgetsTheOwner),
    Sabotage("P13", check_a_clients_call_goes_to_the_client, MemoryStore, ForgetsTheOwner),
    Sabotage("P9", check_success_leaves_no_chatter, silent, chatty),
    Sabotage("P9", check_a_failure_says_why_and_what_was_tried, MemoryStore, GivesNoReason),
    Sabotage("P9", check_a_failure_says_why_and_what_was_tried, MemoryStore, HidesTheTries),
    Sabotage("P10", check_a_tool_does_not_block_the_loop, Effect, WaitsOnTheLoop),
)
