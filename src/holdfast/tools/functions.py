"""Tools from typed Python functions.

Asynchronous ones run on the loop, others in a child process, or in a thread if a child can't import them.
"""

import asyncio
import inspect
import os
import re
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from copy import copy
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias, cast, overload

import msgspec
from msgspec import Struct
from typing_extensions import override

from holdfast.interfaces.tool import NobodyAnswered, Tool, ToolCall, ToolResult, ToolTraits
from holdfast.messages import ToolSpec
from holdfast.tools import function_child as child
from holdfast.tools.arguments import arguments_hash, canonical, parsed, schema_of
from holdfast.tools.context import Retry, ToolContext
from holdfast.tools.offload import offload
from holdfast.tools.shell.environment import child_environment
from holdfast.tools.shell.marker import Marker, foreground
from holdfast.tools.shell.output import Capture, Shown, shorten
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.pump import Sink
from holdfast.tools.signatures import CannotBeTool, arguments_struct, description_of, takes_context
from holdfast.values import Action

ANSWER_BYTES_MAX = 32 * 1024 * 1024
PATIENCE_S = ToolTraits().patience_s
THREAD_LINGER_S = 1.0  # how long a stop waits for a function in a thread

DepsOf: TypeAlias = Callable[[ToolCall], Awaitable[object]]  # the dependencies of the call's run

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Importable(Struct, frozen=True):
    """Where a child process finds a function: in a module, or in the script that is being run."""

    module: str
    name: str
    file: str = ""


class ChildOptions(Struct, frozen=True, kw_only=True):
    """Where a child runs, for how long, and which call it belongs to."""

    cwd: str
    environment: Mapping[str, str]
    marker: Marker
    patience_s: float


class FunctionResult(Struct, frozen=True, kw_only=True):
    """The result of a function in a child: its value, its error, or neither if the child did not finish."""

    ended: ProcessEnd
    value: object = None
    error: str = ""
    retry: str = ""  # what the model is to do differently


def importable(function: Callable[..., object]) -> Importable | None:
    """Where a child finds the function; None for a closure, a method, or one that was typed in."""
    name, module = function.__qualname__, function.__module__
    is_method = inspect.ismethod(function) and not inspect.isclass(function.__self__)
    if is_method or "<" in name:
        return None
    if module != "__main__":
        return Importable(module, name)
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Importable(module, name, str(Path(file).resolve())) if file else None


async def call_in_child(
    where: Importable,
    args: Mapping[str, object],
    *,
    place: ChildOptions,
    sink: Sink,
    hear: Callable[[str], Awaitable[None]] | None = None,
) -> FunctionResult:
    """Call a function in a child process; what it prints goes to the sink."""
    # An unlinked file, not a pipe: the output of a child that is killed midway has no reader to wait for.
    with await offload(_unlinked_file, undo=_close) as answer_file:
        request = {
            "import_path": await offload(lambda: _import_path(where)),
            "package_root": str(Path(child.__file__).parents[2]),
            "module": where.module,
            "name": where.name,
            "file": where.file,
            "args": args,
            "answer_fd": answer_file.fileno(),
        }
        command = Command(
            argv=(sys.executable, "-I", str(child.__file__)),
            cwd=place.cwd,
            environment=place.environment,
            stdin=msgspec.json.encode(request),
            pass_fds=(answer_file.fileno(),),
        )
        ended = await run_command(command, sink, marker=place.marker, patience_s=place.patience_s, hear=hear)
        if ended.why != "exited":
            return FunctionResult(ended=ended)
        data = await offload(lambda: os.pread(answer_file.fileno(), ANSWER_BYTES_MAX, 0))
    return _answer(ended, data)


def _import_path(where: Importable) -> list[str] | None:
    # Our own functions are found without this program's path: it may name the workspace, and what the agent
    # wrote there must not be taken for a module. An author's functions need the author's path.
    if where.module.startswith("holdfast."):
        return None
    return [entry or str(Path.cwd()) for entry in sys.path]


def _unlinked_file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _close(file: IO[bytes]) -> None:
    file.close()


def _answer(ended: ProcessEnd, data: bytes) -> FunctionResult:
    try:
        said = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError:
        return FunctionResult(ended=ended, error=f"it exited without a result (code {ended.code})")
    return FunctionResult(
        ended=ended, value=said.get("value"), error=said.get("error", ""), retry=said.get("retry", "")
    )


class FunctionTool(Tool):
    """A tool that is a Python function. `needs_approval` says that a program wants to be asked first."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        traits: ToolTraits,
        environment: Mapping[str, str],
        name: str = "",
        needs_approval: bool = False,
    ) -> None:
        self.function = function
        self.args_type = arguments_struct(function)
        self.spec = ToolSpec(
            name=name or function.__name__,
            description=description_of(function),
            schema=schema_of(self.args_type),
        )
        if not _NAME.fullmatch(self.spec.name):
            raise CannotBeTool(
                f"{self.spec.name!r} can't be the name of a tool: use up to 64 letters, digits, _ and -."
            )
        self.traits = traits
        self.needs_approval = needs_approval
        self._environment = child_environment({}) | dict(environment)
        self.deps_of: DepsOf | None = None
        self._takes_context = takes_context(function)
        self._is_async = inspect.iscoroutinefunction(function)
        # A context can't be sent to a child process.
        in_process = self._is_async or self._takes_context
        self._where = None if in_process else importable(function)

    def with_deps(self, deps_of: DepsOf) -> "FunctionTool":
        """The same tool, for an agent that knows the dependencies of its runs."""
        copied = copy(self)
        copied.deps_of = deps_of
        return copied

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        name = self.spec.name
        summary = f"{name} {canonical(args).decode()}"
        return Action(tool=name, summary=summary, digest=arguments_hash(name, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(self.args_type, args)
        if self._where is None:
            return await self._in_process(given, call)
        return await self._in_child(self._where, msgspec.to_builtins(given), call)

    async def _in_process(self, given: msgspec.Struct, call: ToolCall) -> ToolResult:
        named = {field.name: getattr(given, field.name) for field in msgspec.structs.fields(given)}
        made = partial(self.function, *(await self._context(call)), **named)
        try:
            value = await (cast("Awaitable[object]", made()) if self._is_async else _in_thread(made))
        except NobodyAnswered:
            raise
        except Retry as again:
            return _try_again(str(again))
        except Exception as error:  # noqa: BLE001 - a tool's failure is the model's to act on
            return _raised(error)
        return _result(value)

    async def _context(self, call: ToolCall) -> tuple[ToolContext[object], ...]:
        if not self._takes_context:
            return ()
        return (ToolContext(call, None if self.deps_of is None else await self.deps_of(call)),)

    async def _in_child(self, where: Importable, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        capture = Capture()
        try:
            answer = await call_in_child(
                where,
                args,
                place=ChildOptions(
                    cwd=str(call.workspace),
                    environment=self._environment,
                    marker=foreground(call.run_id, call.tool_call_id),
                    patience_s=self.traits.patience_s,
                ),
                sink=capture,
                hear=call.say,
            )
            printed = (await offload(capture.text))[0].strip()
        finally:
            capture.close()
        if answer.ended.why == "not_started":
            return ToolResult(f"Not started: {answer.ended.error}", ok=False, ending="not_started")
        if answer.ended.why != "exited":
            return _late(self.traits.patience_s)
        if answer.retry:
            return _try_again(answer.retry)
        if answer.error:
            return ToolResult("\n".join(filter(None, [f"Failed: {answer.error}", printed])), ok=False)
        return _result(answer.value)


async def _in_thread(work: Callable[[], object]) -> object:
    """Do the work in a thread, which no stop and no deadline can end; if one leaves it behind, say so."""
    context, over = copy_context(), threading.Event()

    def body() -> object:
        try:
            return context.run(work)
        finally:
            over.set()

    try:
        return await offload(body, linger_s=THREAD_LINGER_S)
    except asyncio.CancelledError as stop:
        if not over.is_set():
            stop.add_note("It runs in a thread, which can't be killed, and is still running.")
        raise


@overload
def tool(
    function: Callable[..., object],
    /,
    *,
    name: str = "",
    read_only: bool = False,
    idempotent: bool = False,
    needs_approval: bool = False,
    retries: int | None = None,
    patience_s: float = PATIENCE_S,
    environment: Mapping[str, str] | None = None,
) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = "",
    read_only: bool = False,
    idempotent: bool = False,
    needs_approval: bool = False,
    retries: int | None = None,
    patience_s: float = PATIENCE_S,
    environment: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., object]], FunctionTool]: ...
def tool(  # noqa: PLR0913  # each option is one promise of the tool
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str = "",
    read_only: bool = False,
    idempotent: bool = False,
    needs_approval: bool = False,
    retries: int | None = None,
    patience_s: float = PATIENCE_S,
    environment: Mapping[str, str] | None = None,
) -> FunctionTool | Callable[[Callable[..., object]], FunctionTool]:
    """A tool from a typed function with a docstring; raises CannotBeTool, which is a TypeError.

    An `async` function runs in your event loop. Any other function runs in a child process, so that it can be
    killed; the process gets `environment` and the workspace as its directory. A function that a child can't
    import (a closure, a method, one of a notebook) or that takes a `ToolContext` runs in a thread instead: a
    stop waits a second for it, and then the result says that it's still running.

    - `read_only`: it changes nothing, so calls run side by side, and again after a crash.
    - `idempotent`: repeating a call has no second effect, so it runs again after a crash. Send
      `ToolContext.effect_key` to services that take an idempotency key.
    - `needs_approval`: `Agent(on_approval=…)` is asked before each call.
    - `retries`: how often in a row the model may call it again after a call that failed. Then further calls
      are refused, and the run continues without the tool. By default, only the run's budget is a limit.
    - `patience_s`: how long one call may take.

    Example::

        from holdfast import Agent, tool
        from holdfast.testing import Call, Say, ScriptedModel

        @tool(read_only=True, patience_s=5, name="add_numbers")
        async def add(a: int, b: int) -> int:
            '''Add two numbers.'''
            return a + b

        agent = Agent(ScriptedModel([Call("add_numbers", a=2, b=3), Say("5")]), tools=[add])
        assert (await agent.run("What is 2 + 3?")).output == "5"
    """
    _insist_on_numbers(retries=retries, patience_s=patience_s)
    traits = ToolTraits(
        read_only=read_only,
        idempotent=idempotent,
        parallel_safe=read_only,
        patience_s=patience_s,
        failures_max=0 if retries is None else retries + 1,
    )
    make = partial(
        FunctionTool,
        traits=traits,
        environment=environment or {},
        name=name,
        needs_approval=needs_approval,
    )
    return make if function is None else make(function)


def _insist_on_numbers(*, retries: object, patience_s: object) -> None:
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise TypeError(f"retries is a whole number from 0, or None for no limit, and not {retries!r:.80}.")
    if isinstance(patience_s, bool) or not isinstance(patience_s, int | float) or not patience_s > 0:
        raise TypeError(f"patience_s is a number of seconds above 0, and not {patience_s!r:.80}.")


def _result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return ToolResult(shorten(text, Shown())[0])


def _late(patience_s: float) -> ToolResult:
    text = f"Killed: it took longer than {patience_s:g} s. Its effects so far aren't undone."
    return ToolResult(text, ok=False, ending="killed")


def _try_again(text: str) -> ToolResult:
    return ToolResult(f"Try again: {text}", ok=False)


def _raised(error: Exception) -> ToolResult:
    return ToolResult(f"Failed: {type(error).__name__}: {error}", ok=False)
