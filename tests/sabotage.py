"""Small wrong implementations, one or more for each promise, with the check that must notice.

A check is a function of what is plugged in at a seam. It passes for the right thing and fails for the wrong
one; what is wrong with stores stands in journal/sabotage_journal.py.
"""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.world import Effect, World, asks_about, process
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait, server_error
from holdfast.deadlines import Asked, effective
from holdfast.entries import Notice
from holdfast.interfaces import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.model_events import Finished, ModelEvent
from holdfast.models.chat_completions import ChatParser
from holdfast.models.http import ModelHttp
from holdfast.models.sse import Frame
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import StreamParser, WireRequest
from holdfast.runner.inbox import Inbox, Message, Sent
from holdfast.secrets_out import Secrets, StreamFilter
from holdfast.server.bodies import parsed
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.server.problems import Problem
from holdfast.server.run_requests import RunRequest, message_of
from holdfast.targets import Patience
from holdfast.tools.background import Background
from holdfast.tools.marker import foreground, marked
from holdfast.tools.scope import kill_leftovers
from holdfast.tools.shell import Shell
from holdfast.transcript import fold
from serving import Setting, served, target_of
from tools.calls import ENVIRONMENT, Call, shell

Check = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sabotage:
    """What is right and what is wrong at one seam, and the check that tells them apart."""

    promise: str
    check: Check
    right: Any
    wrong: Any

    @property
    def name(self) -> str:
        return f"{self.promise}-{self.check.__name__.removeprefix('check_')}"


# P3: nothing hangs


async def check_silence_ends_by_a_deadline(patience: Patience) -> None:
    """P3: a server that never answers is given up on, by a deadline that was known."""
    async with ChaosServer([Hang()]) as chaos, ModelHttp() as http:
        watchdog = Watchdog(effective(patience, Asked(local=True, input_tokens=10)))
        request = WireRequest(url=f"{chaos.base_url}/chat/completions", headers={}, body=b"{}")
        try:
            async with asyncio.timeout(1), watchdog, http.post(request, watchdog):
                raise AssertionError("nobody answers here")
        except TimeoutError:
            assert watchdog.passed is not None, "it was the test that lost patience"


# P4: one true ending


class EndOfFileIsTheEnd(ChatParser):
    """Takes the end of the connection for the end of the answer."""

    def end(self) -> list[ModelEvent]:
        self.finished = True
        return [Finished("stop")]


async def check_a_cut_answer_is_not_finished(make: Callable[[], StreamParser]) -> None:
    """P4: text and a clean end of file without the protocol's marker is dropped, not completed."""
    parser = make()
    parser.parse(Frame(b"", b'{"choices":[{"index":0,"delta":{"content":"half"}}]}'))
    parser.end()
    assert not parser.finished


# P5: stop means stopped


class Abandons:
    """Forgets its process when it is stopped."""

    child: subprocess.Popen[bytes]

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        environment = marked(ENVIRONMENT, foreground(call.run_id, call.tool_call_id))
        self.child = await asyncio.to_thread(subprocess.Popen, ["sleep", "30"], env=environment)
        await call.say("ready")
        await asyncio.get_running_loop().create_future()
        raise AssertionError(args)


async def check_a_stop_leaves_no_process(make: Callable[[], Any]) -> None:
    """P5: when a stopped tool has ended, nothing that it started is alive."""
    call = Call(workspace=Path.cwd())
    tool = make()
    running = asyncio.create_task(tool.run({"command": "echo ready; sleep 30"}, call))
    await call.hears("ready")
    running.cancel()
    await asyncio.wait([running])
    left = await call.left()
    await kill_leftovers(call.run_id)
    if isinstance(tool, Abandons):
        await asyncio.to_thread(tool.child.wait)
    assert not left


def right_shell() -> Shell:
    return shell(Background(Path("nowhere"), now_ms=lambda: 0))


# P6: a crash is a pause


async def check_an_unknown_effect_is_not_repeated(traits: ToolTraits) -> None:
    """P6: a tool that was running when the process died is not run again by itself."""
    disk, done, begun = MemoryDisk(), list[str](), asyncio.Event()

    class Dies(Effect):
        async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
            done.append("first")
            begun.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError(args, call)

    async with ChaosServer([CallTool("act")], [Say("ok")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, Dies("act", done, traits), store=frozen) as world:
            assert isinstance(await world.inbox.send("s", Message(text="do it")), Sent)
            await begun.wait()
            await frozen.close()
        async with process(chaos, Effect("act", done, traits), store=MemoryStore(disk)) as world:
            await world.until("s", e.RunEnded)
    assert done == ["first"]


# P8: an approval is one exact action


class ApprovesByPosition(Inbox):
    """Takes any answer for an answer to whatever is open now."""

    async def answer_approval(self, session_id: str, answered: e.ApprovalAnswered, **rest: Any) -> bool:
        state = await self.state(session_id)
        open_asks = [ask.asked for run in state.runs.values() for ask in run.open_asks]
        first = next(asked for asked in open_asks if isinstance(asked, e.ApprovalAsked))
        moved = e.ApprovalAnswered(
            at_ms=1, run_id=first.run_id, approval_id=first.approval_id, choice=answered.choice
        )
        return await super().answer_approval(session_id, moved, **rest)


async def check_a_late_answer_approves_nothing(inbox: type[Inbox]) -> None:
    """P8: an answer to another approval does not approve the one that is open."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("act")], [Say("ok")]) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act"), inbox=inbox) as world,
    ):
        sent = await world.inbox.send("s", Message(text="do it"))
        assert isinstance(sent, Sent)
        await world.until("s", e.ApprovalAsked)
        late = e.ApprovalAnswered(at_ms=1, run_id=sent.run_id, approval_id="apr_expired", choice="once")
        assert not await world.inbox.answer_approval("s", late)
        assert not done


# P9: quiet when it works


async def check_success_leaves_no_chatter(chatter: Callable[[World, str], Awaitable[None]]) -> None:
    """P9: two failed tries and an answer: people see the answer and nothing else."""
    gate = Gate()
    script = [[server_error()], [server_error()], [Say("all "), Wait(gate), Say("well")]]
    async with ChaosServer(*script) as chaos, process(chaos) as world:
        sent = await world.inbox.send("s", Message(text="hi"))
        assert isinstance(sent, Sent)
        await gate.reached()
        await chatter(world, sent.run_id)
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
        await world.inbox.send("s", Message(text="do it"))
        log = await world.until("s", e.RunEnded)
    (ended,) = [record.event for record in log if isinstance(record.event, e.ToolEnded)]
    assert ended.ok, ended.result


# P11: nobody gets in, and no secret gets out


async def check_a_stranger_learns_nothing(options: ServerOptions) -> None:
    """P11: without the key the answer is 401, whether or not the run exists."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=Setting(options=options)) as server:
        status, _ = await server.get("/v1/runs/run_unknown", Authorization="Bearer wrong-key-of-a-stranger")
        assert status == 401


class ForgetsTheCut(StreamFilter):
    """Looks at each piece alone."""

    def feed(self, text: str) -> str:
        return Secrets(["sk-test-of-a-key"]).out_of_text(text)


async def check_a_key_in_two_pieces_is_caught(kind: type[StreamFilter]) -> None:
    """P11: a key that is split over two deltas does not get out."""
    stream = kind(Secrets(["sk-test-of-a-key"]))
    shown = stream.feed("it is sk-test-") + stream.feed("of-a-key.") + stream.flush()
    assert "sk-test-of-a-key" not in shown


# P12: bad input gets a clear error


def takes_anything(body: RunRequest, limits: Limits) -> Message:
    """Starts a run whatever it was asked for."""
    del limits
    return Message(text=str(body.input))


async def check_bad_input_is_refused(read: Callable[[RunRequest, Limits], Message]) -> None:
    """P12: a request without an input is refused, and the error names what is missing."""
    refused: Problem | None = None
    try:
        read(await parsed(b"{}", Limits(), RunRequest), Limits())
    except Problem as problem:
        refused = problem
    assert refused is not None, "a run would start with nothing to do"
    assert (refused.status, refused.param) == (400, "input")


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage(
        "P3",
        check_silence_ends_by_a_deadline,
        Patience(first_event_s=0.1),
        Patience(first_event_s=0, first_progress_s=0, upload_s=0, connect_s=0),
    ),
    Sabotage("P4", check_a_cut_answer_is_not_finished, ChatParser, EndOfFileIsTheEnd),
    Sabotage("P5", check_a_stop_leaves_no_process, right_shell, Abandons),
    Sabotage("P6", check_an_unknown_effect_is_not_repeated, ToolTraits(), ToolTraits(idempotent=True)),
    Sabotage("P8", check_a_late_answer_approves_nothing, Inbox, ApprovesByPosition),
    Sabotage("P9", check_success_leaves_no_chatter, silent, chatty),
    Sabotage("P10", check_a_tool_does_not_block_the_loop, Effect, WaitsOnTheLoop),
    Sabotage(
        "P11",
        check_a_stranger_learns_nothing,
        ServerOptions(keys=(ApiKey("only", "the-only-key-there-is"),)),
        ServerOptions(keys=None),
    ),
    Sabotage("P11", check_a_key_in_two_pieces_is_caught, StreamFilter, ForgetsTheCut),
    Sabotage("P12", check_bad_input_is_refused, message_of, takes_anything),
)
