"""`holdfast run`: one task, its answer, and an exit code that tells how it went.

The task of `holdfast run`: the words of the command line, and what is piped in.
"""

import asyncio
import os
import select
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from holdfast import events as e
from holdfast.cli.attach import FAILED, OK, STOPPED, UNAPPROVED, Attached, with_server
from holdfast.cli.ids import check_model, resolve_session
from holdfast.cli.program_name import command_line, program
from holdfast.cli.run_asks import RunAsks
from holdfast.cli.run_output import Output, TerminalOutput, output_for
from holdfast.cli.terminal.child_asks import ChildAsks
from holdfast.cli.terminal.output import echo_error
from holdfast.client.errors import ClientError, Refused
from holdfast.client.updates import Seen
from holdfast.values import ONE_SHOT

if TYPE_CHECKING:
    from holdfast.api.runs import Started
    from holdfast.client import Client


LEAVING_S = 10.0  # how long one who is no longer read waits for the end of the run
EXIT_CODES: Mapping[str, int] = {"completed": OK, "cancelled": STOPPED}
STOPPING: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)


class Task(Struct, frozen=True, kw_only=True):
    """The task, and the output format."""

    text: str
    session_id: str = ""
    model: str = ""
    mode: str = ""  # the permission mode; empty: the session's, or the configured one
    options: Mapping[str, object] = {}  # of the model, such as its temperature
    agent: str = ""
    form: str = "text"  # or json


def run(flags: Mapping[str, object], task: Task) -> int:
    """Do the task; the exit code."""
    if not task.text:
        echo_error(f"holdfast: no task given. Try: {program()} run 'summarize README.md'")
        return 2

    async def work(attached: Attached) -> int:
        await check_model(attached.client, task.model)
        started = await attached.client.start(
            task.text,
            session_id=await resolve_session(attached.client, task.session_id),
            model=task.model,
            more={
                "origin": ONE_SHOT,
                "workspace": str(attached.directory.settings.workspace),
                **({"permission_mode": task.mode} if task.mode else {}),
                **task.options,
                **({"agent": task.agent} if task.agent else {}),
            },
        )
        return await show_run_here(attached.client, started, form=task.form)

    return with_server(flags, work)


async def show_run_here(client: "Client", started: "Started", *, form: str) -> int:
    """Tell the run to its ending; what a person has read here is not unread on the page."""
    output = output_for(form)
    code = await follow_run(client, started.run_id, output=output)
    if isinstance(output, TerminalOutput) and code != STOPPED:  # who stops a run wants to leave
        with suppress(ClientError):  # the answer is there, and a mark is only a courtesy
            await client.mark_read(started.session_id)
    return code


async def follow_run(client: "Client", run_id: str, *, output: Output) -> int:
    """Tell the run to its ending; Ctrl-C, SIGTERM or SIGHUP stops it, a second one leaves at once."""
    telling = asyncio.create_task(_show_run(client, run_id, output=output))
    stopping = _Stopping(client, run_id, telling)
    loop = asyncio.get_running_loop()
    acts = dict.fromkeys(STOPPING, stopping.interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup it is to outlive its terminal
        acts[signal.SIGHUP] = stopping.hang_up
    before = {number: signal.getsignal(number) for number in acts}
    for number, act in acts.items():
        loop.add_signal_handler(number, act)
    try:
        return await telling
    except asyncio.CancelledError:
        if not stopping.is_left:
            raise
        return STOPPED
    except BrokenPipeError:
        # The reader closed the pipe, so stop the run.
        stopping.interrupt()
        await stopping.over()
        raise
    finally:
        for number, earlier in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, earlier)
        await stopping.settled()
        await output.close()


async def _show_run(client: "Client", run_id: str, *, output: Output) -> int:
    asks = RunAsks(client, output)

    async def hear_child(name: str, event: e.Event) -> None:
        if isinstance(event, e.ApprovalAsked | e.QuestionAsked):
            await output.say(f"{name} asks:\n")
        await asks.hear(event)

    children = ChildAsks(client, hear_child)
    ticking = asyncio.create_task(output.tick())
    proposals = 0
    try:
        async with aclosing(client.watch(run_id)) as heard:
            async for one in heard:
                await output.hear(one)
                if isinstance(one, Seen):
                    await asks.hear(one.event)
                    children.take(one.event)
                    proposals += isinstance(one.event, e.ToolEnded) and bool(one.event.proposal)
                    if isinstance(one.event, e.RunEnded):
                        await output.end(one.event)
                        if proposals:
                            await output.say(_proposal_line(run_id, proposals))
                        code = EXIT_CODES.get(one.event.outcome, FAILED)
                        return UNAPPROVED if code == OK and asks.refused else code
    finally:
        ticking.cancel()
        await children.close()
        await asks.close()
        await asyncio.wait({ticking})
    return FAILED


def _proposal_line(run_id: str, count: int) -> str:
    """How to accept what the run proposed to remember or to learn."""
    if count == 1:
        return f"A proposed memory or skill needs your review: {command_line(f'memory accept {run_id}')}\n"
    return f"{count} proposed memories or skills need your review: {command_line('memory show')}\n"


class _Stopping:
    """Handles Ctrl-C."""

    def __init__(self, client: "Client", run_id: str, telling: asyncio.Task[int]) -> None:
        self._client = client
        self._run_id = run_id
        self._telling = telling
        self._asked: asyncio.Task[None] | None = None
        self.is_left = False

    def interrupt(self) -> None:
        """The first time ask the run to stop, the second time go."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._stop())
        else:
            self.is_left = True
            self._telling.cancel()

    def hang_up(self) -> None:
        """Ask the run to stop: a window that closes sends this twice, by the shell and by the system."""
        if self._asked is None:
            self.interrupt()

    async def _stop(self) -> None:
        try:
            await self._client.stop(self._run_id)
        except Refused as error:
            if error.code != "run_not_found":  # it is over, which is what was wanted
                raise

    async def over(self) -> None:
        """Wait until nothing of the run is left, for some time at most."""
        with suppress(TimeoutError, ClientError):
            async with asyncio.timeout(LEAVING_S):
                await self.settled()
                await self._client.ended(self._run_id)

    async def settled(self) -> None:
        """Wait for a request in progress."""
        if self._asked is not None:
            if self.is_left:
                self._asked.cancel()
            await asyncio.wait({self._asked})


PIPED_BYTES_MAX = 8 * 1024 * 1024
FIRST_BYTE_S = 3.0  # how long a silent pipe is waited for: a service may leave one open for ever


def read_task(
    words: Sequence[str], stdin: TextIO | None = None, *, first_byte_s: float = FIRST_BYTE_S
) -> str:
    """The whole task; `-` is replaced by the standard input, and without it a pipe follows the words.

    Raises SystemExit with a message if the input is too large or no text.
    """
    stdin = sys.stdin if stdin is None else stdin
    if "-" in words:
        return " ".join(_read(stdin) if word == "-" else word for word in words).strip()
    task = " ".join(words).strip()
    piped = _read(stdin) if stdin is not None and _has_input(stdin, bool(task), first_byte_s) else ""
    if not task or not piped.strip():
        return task or piped.strip()
    return f"{task}\n\n<stdin>\n{piped.rstrip()}\n</stdin>"


def _has_input(stdin: TextIO, has_words: bool, first_byte_s: float) -> bool:
    """Whether to read it: a pipe or a file, and a pipe only if something comes soon."""
    try:
        kind = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(kind):
        return True
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return False
    if not has_words or select.select([stdin], [], [], first_byte_s)[0]:
        return True
    echo_error(
        f"holdfast: no data on standard input for {first_byte_s:g} s, so the task runs without it; add "
        "</dev/null to skip the wait",
    )
    return False


def _read(stdin: TextIO | None) -> str:
    data = b"" if stdin is None else stdin.buffer.read(PIPED_BYTES_MAX + 1)
    if len(data) > PIPED_BYTES_MAX:
        raise SystemExit(
            f"holdfast: standard input is larger than {PIPED_BYTES_MAX // 1024**2} MB. "
            "Save it as a file in the workspace and mention the file in the task."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit("holdfast: standard input isn't UTF-8 text") from error
