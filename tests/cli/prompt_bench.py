"""A prompt that reads keys from a pipe, with a clock that the test sets."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from holdfast import events as e
from holdfast.cli.asks import GUARD_S, TypeAheadGuard
from holdfast.cli.chat.prompt import ChatPrompt, PromptActs, PromptDevice
from holdfast.cli.terminal.renderer import AskEvent
from holdfast.values import Action

ASKED = e.ApprovalAsked(
    at_ms=1,
    run_id="run_1",
    approval_id="apr_1",
    tool_call_id="c1",
    action=Action(tool="shell", summary="rm -r build"),
    choices=("once", "session", "always", "deny"),
)


class HandClock:
    """Time that a test sets; `read` is set when somebody looks at it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.read = asyncio.Event()

    def __call__(self) -> float:
        self.read.set()
        return self.now_s


@dataclass
class Bench:
    """A prompt that reads from a pipe, with a clock that the test sets; Ctrl-C sets `interrupted`."""

    prompt: ChatPrompt
    clock: HandClock
    press: Callable[[str], None]
    interrupted: asyncio.Event
    edits: asyncio.Event  # Esc Esc was pressed

    async def asked(self, ask_id: str, asked: AskEvent) -> None:
        """Show the menu, and wait until it is drawn."""
        self.clock.read.clear()
        self.prompt.ask(ask_id, asked)
        await self.clock.read.wait()

    async def line(self) -> str:
        typed = await self.prompt.lines.get()
        assert typed is not None
        return typed.line


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    clock, interrupted, edits = HandClock(), asyncio.Event(), asyncio.Event()
    with create_pipe_input() as keyboard:
        prompt = ChatPrompt(
            history=InMemoryHistory(),
            words=DummyCompleter(),
            live=str,
            status=str,
            acts=PromptActs(interrupt=interrupted.set, edit_last=edits.set),
            device=PromptDevice(keyboard, DummyOutput(), clock),
        )
        reading = asyncio.create_task(prompt.run())
        try:
            keyboard.send_text("hello\r")
            one = Bench(prompt, clock, keyboard.send_text, interrupted, edits)
            assert await one.line() == "hello"
            yield one
        finally:
            prompt.leave()
            await reading


async def check_early_keys_do_not_count(guard_on: Callable[[Callable[[], float]], TypeAheadGuard]) -> None:
    """P8: a key that its typist pressed before reading the ask is no consent."""
    clock = HandClock()
    guard = guard_on(clock)
    assert not guard.lets_through(), "before the ask is drawn"
    guard.drawn()
    clock.now_s += GUARD_S * 0.9
    assert not guard.lets_through(), "just after it is drawn"
    clock.now_s += GUARD_S * 0.9
    assert not guard.lets_through(), "in the middle of typing"
    clock.now_s += GUARD_S * 1.1
    assert guard.lets_through()
    assert guard.lets_through(), "from then on every key counts, however quickly it follows"
