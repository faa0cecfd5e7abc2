"""The live line in a browser: one row for each state that a run can stand in, held there by a gate."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace
from playwright.async_api import Locator, expect

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Script, Think, Wait
from holdfast.chaos.statuses import overloaded, overloaded_s, rate_limited_s
from holdfast.interfaces.journal import Appended
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.page import BUILT, read_page
from page.browsing import UNHURRIED, Chat, Visit
from page.program import configure, process
from server.toolbox import Counted, Held
from serving import AsksAbout, Setting, served, target_of
from stores import MemoryStore

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

BESIDE = ToolTraits(read_only=True, parallel_safe=True)
# What the log says is shown as long as the server adds nothing, and what it adds comes at once.
LOG_ALONE = ServerOptions(limits=Limits(live_after_s=3600))
AT_ONCE = ServerOptions(limits=Limits(live_after_s=0.02, live_every_s=0.02))


class HoldsAtGate(MemoryStore):
    """A store that keeps the nth event of a kind, and what follows it, waiting at a gate.

    Held after the event, the store has it, but its writer doesn't know that yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self._kind: type[e.Event] = e.Event
        self._left = -1
        self._is_after = False

    def hold(self, kind: type[e.Event], *, nth: int = 1, after: bool = False) -> None:
        """From now on, at a new gate."""
        self.gate = Gate()
        self._kind, self._left, self._is_after = kind, nth, after

    async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        for at, event in enumerate(events):
            self._left -= isinstance(event, self._kind)
            if not self._left and not self.gate.is_open:
                cut = at + self._is_after
                told = await super().append_run(session_id, events[:cut], **rest) if cut else None
                assert told is None or isinstance(told, Appended)
                await self.gate.passed()
                if told is not None and cut == len(events):
                    return told
                return await super().append_run(session_id, events[cut:], **rest)
        return await super().append_run(session_id, events, **rest)


class SlowToStop(Held):
    """Ends only when its gate opens, also when it is stopped."""

    async def run(self, args: Any, call: ToolCall) -> ToolResult:
        del args, call
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.gate.passed()
            raise
        return ToolResult("never")


@asynccontextmanager
async def holding(
    visit: Visit, *scripts: Script, setting: Setting | None = None
) -> AsyncGenerator[tuple[Chat, HoldsAtGate]]:
    """A chat that is open already, so that it follows the log; at the end the gate of its store is open."""
    store = HoldsAtGate()
    setting = replace(setting or Setting(), store=store, options=LOG_ALONE)
    async with visit.chatting([Say("hello")], *scripts, setting=setting) as server:
        try:
            context = await visit.context()
            # the line tells of a silence, too: here only events change it, however long they take
            await context.clock.set_fixed_time(datetime.now(UTC))
            chat = await visit(server.url, context)
            await chat.say("hi")
            await chat.answered("hello")
            await expect(live(chat)).to_have_count(0)
            yield chat, store
        finally:
            store.gate.open()
    await store.close()


def live(chat: Chat) -> Locator:
    return chat.page.locator(".live")


async def says(chat: Chat, words: str | re.Pattern[str], *, when: str | None = None) -> None:
    await expect(live(chat).locator(".live-state"), when).to_have_text(words)


@dataclass(frozen=True, slots=True)
class Standing:
    """A run that stands still: the event that does not come, and what its model does before it answers."""

    words: str
    before: type[e.Event]
    nth: int = 1
    first: Script = ()
    thought: str = ""
    calls: bool = True  # a call is under way, of which the server knows more than the log

    def scripts(self, answer: str) -> list[Script]:
        """What the model does for one run."""
        last: Script = [Think(self.thought), Say(answer)] if self.thought else [Say(answer)]
        return [self.first, last] if self.first else [last]


TOUCH = CallTool("touch", {"path": "a.py"})
STANDING = {
    "in the queue": Standing("Queued", e.MessageDispatched, calls=False),
    "starting": Standing("Starting", e.CallStarted, calls=False),
    "before an attempt": Standing("Working", e.AttemptStarted),
    "waiting for the first word": Standing("Waiting for m", e.TextDelta),
    "thinking": Standing("m is thinking", e.TextDelta, thought="hm"),
    "writing": Standing("m is answering", e.TextDone),
    "after a text": Standing("m is working", e.CallEnded),
    "trying again": Standing("Retrying", e.AttemptStarted, 2, [overloaded()]),
    "asked again": Standing("Waiting for m", e.TextDelta, 1, [overloaded()]),
    "asking for a tool": Standing("m wants to run touch a.py", e.CallEnded, 1, [TOUCH], calls=False),
    "a tool is next": Standing("About to run touch a.py", e.ToolStarted, 1, [TOUCH], calls=False),
    "a tool is at work": Standing("Running touch a.py", e.ToolEnded, 1, [TOUCH], calls=False),
    "after a tool": Standing("Working", e.CallStarted, 2, [TOUCH], calls=False),
    "asked again after a tool": Standing("Waiting for m", e.TextDelta, 1, [TOUCH]),
}


async def test_the_line_says_what_the_log_says(visit: Visit) -> None:
    """P3: also after a reload, from what the server then says of the run; an ended run has no line."""
    scripts = [script for name, row in STANDING.items() for script in row.scripts(f"was {name}")]
    scripts.append([rate_limited_s(600)])
    async with holding(visit, *scripts, setting=Setting(tools=(Counted(),))) as (chat, store):
        for name, row in STANDING.items():
            store.hold(row.before, nth=row.nth)
            await chat.say(name)
            await says(chat, row.words, when=name)
            if not row.calls:
                await chat.page.reload()
                await says(chat, row.words, when=f"{name}, after a reload")
            store.gate.open()
            await chat.answered(f"was {name}")
            await expect(live(chat), name).to_have_count(0)
        await chat.say("gated, before the server says for how long")
        await says(chat, "Waiting for the provider")


LONG_PATH = "docs/a long name.md " + "of many words " * 4 + "and an end.md"
SAID_OF_TOOLS = {
    "shell": ({"command": "pytest -q"}, "pytest -q", "run", "Running"),
    "read_file": ({"path": "src/app.py"}, "src/app.py", "read", "Reading"),
    "edit_file": ({"path": "src/app.py", "old": "a", "new": "b"}, "src/app.py", "edit", "Editing"),
    "search_files": ({"pattern": "def main"}, "def main", "search for", "Searching for"),
    "deploy": ({"name": "prod"}, "prod", "run deploy", "Running deploy"),
    "write_file": ({"path": LONG_PATH, "content": "a"}, LONG_PATH, "write", "Writing"),
}


BEGINS_BESIDE_ITS_DOT = """line => {
    const place = name => line.querySelector(name).getBoundingClientRect()
    const [dot, words] = [place(".pulse"), place(".live-state")]
    return words.top <= dot.top && words.left >= dot.right
}"""


async def test_the_line_says_what_a_tool_does_and_to_what(visit: Visit) -> None:
    """P3: also of one that was just approved."""
    tools = {name: Held(name) for name in SAID_OF_TOOLS}
    scripts: list[Script] = [[TOUCH], [Say("touched")]]
    for name, (args, *_) in SAID_OF_TOOLS.items():
        scripts += [CallTool(name, args)], [Say(f"used {name}")]
    setting = Setting(tools=(Counted(), *tools.values()), judge=AsksAbout(frozenset({"touch"})))
    async with holding(visit, *scripts, setting=setting) as (chat, store):
        store.hold(e.ToolStarted)
        await chat.say("touch it")
        await says(chat, "Waiting for your approval")
        await chat.page.get_by_role("button", name="Once").click()
        await says(chat, "About to run touch a.py")
        store.gate.open()
        await chat.answered("touched")
        for name, (_, target, to_do, doing) in SAID_OF_TOOLS.items():
            store.hold(e.ToolStarted)
            await chat.say("go")
            await says(chat, f"About to {to_do} {target}")
            store.gate.open()
            await says(chat, f"{doing} {target}")
            await chat.page.set_viewport_size({"width": 390, "height": 800})
            assert await live(chat).evaluate(BEGINS_BESIDE_ITS_DOT), (
                "on a phone the words wrap, the dot stays"
            )
            tools[name].gate.open()
            await chat.answered(f"used {name}")


async def test_an_answer_that_has_gone_silent_is_waited_for(visit: Visit) -> None:
    """P3: also without a word of the server, and after a reload, when nobody knows for how long.

    P7: without a network nothing is heard of the run, so nothing is said about it, and nothing is counted.
    """
    gate = Gate()
    script = [Say("half"), Wait(gate), Say(" whole")]
    async with visit.chatting(script, setting=Setting(options=LOG_ALONE)) as server:
        context = await visit.context()
        await context.clock.install()
        chat = await visit(server.url, context)
        await chat.say("go")
        await chat.answered("half")
        await context.clock.fast_forward(10_000)
        await says(chat, "Waiting for m")
        await expect(live(chat).locator(".live-part").first).to_have_text(re.compile(r"^\d+ s$"))
        await chat.page.reload()
        await chat.answered("half")
        await says(chat, "Waiting for m")
        await chat.page.context.set_offline(True)
        await expect(live(chat)).to_have_text("Offlinenothing is lost; this page catches up")
        gate.open()
        await chat.page.context.set_offline(False)
        await chat.answered("half whole")
        await expect(live(chat)).to_have_count(0)


async def test_after_allow_once_the_line_says_what_runs_and_for_how_long(
    visit: Visit, tmp_path: Path
) -> None:
    """P3: with a real shell behind a real server, from the question to the end of the command."""
    command = "cat gate > out"
    async with ChaosServer([CallTool("shell", {"command": command})], [Say("done")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        await asyncio.to_thread(os.mkfifo, tmp_path / "work" / "gate")
        async with process(tmp_path) as url:
            chat = await visit(url)
            await chat.say("go")
            await says(chat, "Waiting for your approval")
            card = chat.page.get_by_role("region", name="Approval needed")
            await card.get_by_role("button", name="Once").click()
            await says(chat, f"Running {command}")
            await expect(live(chat).locator(".live-part")).to_have_text(re.compile(r"^\d+ s$"))
            await chat.page.reload()
            await says(chat, f"Running {command}")
            await asyncio.to_thread((tmp_path / "work" / "gate").write_text, "x")
            await chat.answered("done")
            await expect(live(chat)).to_have_count(0)
            await visit.leave(url)


async def test_of_several_tools_and_requests_the_line_names_what_happens(visit: Visit) -> None:
    """P3: tools that run are counted, and the last is named; a card says that it waits."""
    file, mcp, held = Held("read_file", traits=BESIDE), Held("github__search", traits=BESIDE), Held()
    setting = Setting(tools=(file, mcp, held, Counted()), judge=AsksAbout(frozenset({"held", "touch"})))
    scripts = (
        [CallTool("read_file", {"path": "a.py"}), CallTool("github__search", {"query": "bugs"})],
        [Say("found")],
        [CallTool("held", {"path": "b"}), TOUCH],
        [Say("done")],
        [CallTool("ask_user", {"text": "Which?"})],
    )
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("find it")
        await says(chat, "Running 2 tools")
        file.gate.open()
        await says(chat, "Running github__search bugs")
        mcp.gate.open()
        await chat.answered("found")
        await chat.is_over()
        await chat.say("change it")
        await chat.page.get_by_role("button", name="Once").click()
        await says(chat, "Running held b")
        card = chat.page.get_by_role("region", name="Approval needed")
        await expect(card).to_contain_text("touch")
        held.gate.open()
        await says(chat, "Waiting for your approval")
        await card.get_by_role("button", name="Once").click()
        await chat.answered("done")
        await chat.is_over()
        await chat.say("ask me")
        await says(chat, "Waiting for your answer")


async def test_a_run_that_waits_for_a_slot_says_its_place(visit: Visit) -> None:
    """P3."""
    gate = Gate()
    setting = Setting(runner=RunnerLimits(runs_max=1), options=AT_ONCE)
    async with visit.chatting([Wait(gate), Say("first")], [Say("second")], setting=setting) as server:
        await server.served.start("one", session_id="other")
        await gate.reached()
        chat = await visit(server.url)
        await chat.say("two")
        await expect(live(chat)).to_have_text("Queuedplace 1other runs are using all slots")
        gate.open()
        await chat.answered("second")


ADDED = {
    "waiting for the first event": ([Hang()], r"^Waiting for m\d+ sreconnects at 600 s$"),
    "silent between two words": ([Say("a"), Hang()], r"^Waiting for m\d+ sreconnects at 600 s$"),
    "backing off": ([overloaded_s(30)], r"^main was overloadedretrying in \d+ s$"),
    "gated": ([rate_limited_s(600)], r"^main asked to waitretrying in \d+ s$"),
}


async def test_the_line_says_what_only_the_server_knows(visit: Visit) -> None:
    """P3: which deadline is next, and what happens then; at once after a reload.

    P5: nobody reads that a tool runs, or that the model answers, once they have stopped it.
    """
    slow = SlowToStop("slow")
    scripts = ([CallTool("slow", {})], *(script for script, _ in ADDED.values()))
    async with visit.chatting(*scripts, setting=Setting(tools=(slow,), options=AT_ONCE)) as server:
        chat = await visit(server.url)
        await chat.say("go")
        await says(chat, "Running slow")
        await chat.button("Stop").click()
        await says(chat, "Stopping")
        slow.gate.open()
        await chat.sees("Stopped")
        await expect(live(chat)).to_have_count(0)
        for name, (_, line) in ADDED.items():
            await chat.button("New chat").click()
            await chat.say(name)
            await expect(live(chat), name).to_have_text(re.compile(line))
            await chat.page.reload()
            await expect(live(chat), f"{name}, after a reload").to_have_text(re.compile(line))


async def test_the_line_names_the_model_that_was_fallen_back_to(visit: Visit) -> None:
    """P3."""
    options = replace(LOG_ALONE, page=await asyncio.to_thread(read_page, BUILT))
    gate = Gate()
    async with (
        ChaosServer([Say("hello")], [overloaded()], [overloaded()], [overloaded()]) as first,
        ChaosServer([Wait(gate), Say("from the other")]) as second,
        served(
            target_of(first, patience=UNHURRIED),
            structs.replace(target_of(second, name="spare", patience=UNHURRIED), model="other-model"),
            setting=Setting(options=options),
        ) as server,
    ):
        chat = await visit(server.url)
        # a chat that is open already follows the log; one that is opened shows what the server says then
        await chat.say("hi")
        await chat.answered("hello")
        await chat.is_over()
        await chat.say("go")
        await says(chat, "Waiting for other-model")
        gate.open()
        await chat.answered("from the other")
        await visit.leave(server.url)


async def test_the_line_says_that_the_conversation_is_summed_up(visit: Visit) -> None:
    """P3: a summary is no answer, and its words are not told as one."""
    gate = Gate()
    scripts = ([Say("one")], [Say("the sum"), Wait(gate)], [Say("two")])
    setting = Setting(context_window=4000, options=LOG_ALONE)
    async with visit.chatting(*scripts, setting=setting) as server:
        chat = await visit(server.url)
        await chat.say("long " * 1500)
        await chat.answered("one")
        await chat.say("more " * 1500)
        await says(chat, "Summarizing the conversation")
        await gate.reached()
        await says(chat, "Summarizing the conversation")
        gate.open()
        await chat.answered("two")


async def test_the_line_says_that_a_run_goes_on_after_a_restart(visit: Visit) -> None:
    """P6: until it does something again."""
    store = HoldsAtGate()
    store.hold(e.RunResumed, after=True)  # the model isn't asked before the writer knows that it is on disk
    options = replace(LOG_ALONE, page=await asyncio.to_thread(read_page, BUILT))
    async with ChaosServer([Say("half"), Hang()], [Say("whole")]) as chaos:
        target = target_of(chaos, patience=UNHURRIED)
        async with served(target, setting=Setting(store=store, options=options)) as server:
            chat = await visit(server.url)
            await chat.say("go")
            await chat.answered("half")
            session = chat.page.url.removeprefix(server.url)
        await expect(live(chat)).to_contain_text("Reconnecting")
        async with served(target, setting=Setting(store=store, options=options)) as server:
            chat = await visit(server.url + session)
            try:
                await says(chat, "Resuming after a restart")
            finally:
                store.gate.open()
            await chat.answered("whole")
            await visit.leave(server.url)
    await store.close()
