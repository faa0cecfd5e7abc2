"""The agent: a model, instructions and tools, ready to run inside your own program."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from inspect import isroutine
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypeVar

from holdfast.embedding.approvals import OnApproval, OnQuestion, answer, decide
from holdfast.embedding.checks import (
    insist_on_budget,
    insist_on_no_loop,
    insist_on_no_tool_child,
    insist_on_patience,
    insist_on_tools,
    text_or_function,
)
from holdfast.embedding.errors import AnswerNeeded, ApprovalNeeded, ConfigurationError
from holdfast.embedding.handlers import insist_on_handlers
from holdfast.embedding.instructions import Instructions, InstructionsContext, written
from holdfast.embedding.model_names import Model, ModelSettings, checked_settings, models_of
from holdfast.embedding.output_types import OneOf, OutputType, output_type_of
from holdfast.embedding.parts import AgentParts, Configuration, TrustedTools, kept_in, registry_of
from holdfast.embedding.prompts import Prompt, checked_prompt, text_and_parts
from holdfast.embedding.results import OutputT, Result
from holdfast.embedding.runs import RunHandle, RunStream
from holdfast.embedding.runtime import AgentRuntime
from holdfast.embedding.sessions import AgentSession
from holdfast.embedding.sub_agents import SubAgent, team_of
from holdfast.events import ApprovalAsked, PersonAsked, QuestionAsked
from holdfast.folds.rows import RunStatus
from holdfast.interfaces.ids import new_session_id
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolCall
from holdfast.tools.functions import FunctionTool
from holdfast.tools.functions import tool as tool_of
from holdfast.tools.signatures import CannotBeTool
from holdfast.values import Budget, RunSettings

if TYPE_CHECKING:
    from holdfast.config.settings import McpServerSettings
    from holdfast.host.runtime import Runner
    from holdfast.interfaces.clock import Clock
    from holdfast.targets import Patience

DepsT = TypeVar("DepsT", default=None)
AgentTool: TypeAlias = Callable[..., object] | Tool
OPEN_STATUSES: tuple[RunStatus, ...] = ("running", "stopping", "queued")
OPEN_RUNS_MAX = 1_000


class _RunRequest(Struct, Generic[OutputT, DepsT], frozen=True):
    """A run to start: what the program asked for, checked."""

    prompt: Prompt
    session_id: str
    output: OutputType[OutputT]
    settings: RunSettings
    deps: DepsT | None


class Agent(Generic[DepsT]):
    """A model with instructions and tools, whose runs keep the server's promises in your event loop.

    - `model`: `"provider:model"` (the key comes from the provider's usual variable), a `Target` for anything
      else, or a list of those: the first is preferred, the others are fallbacks.
    - `tools`: typed functions with docstrings, or what `@tool` made of them.
    - `mcp_servers`: MCP servers whose tools the agent gets. Each call of one needs an approval.
    - `agents`: the `SubAgent`s that it can give tasks to.
    - `model_settings`: temperature, effort and so on; `patience`: how long to wait for the models.
    - `store`: `"memory"`, or the path of a SQLite file. In a file, sessions outlive your program, and a run
      that a crash interrupted continues when an agent opens the file again.
    - `instructions`: the whole prompt, or a function that writes it for each run. Holdfast adds its own only
      to agents from `from_config`.
    - `workspace`: the folder that tools work in. If it has an AGENTS.md, that is added to the instructions.
    - `deps`: what `ToolContext.deps` is in runs that you give no `deps` of their own, also in resumed runs.
    - `on_approval`: a function, async or not, that decides about calls of tools with `needs_approval`.
    - `on_question`: a function, async or not, that answers what tools ask with `ToolContext.ask`.

    `run` opens what it needs and closes it again. In a program that runs for long, use `async with agent:`
    once, so that connections stay open and interrupted runs continue at once. The agent sets no signal
    handlers and doesn't touch your child processes.

    Example::

        from holdfast import Agent
        from holdfast.testing import Call, Say, ScriptedModel

        async def add(a: int, b: int) -> int:
            '''Add two numbers.'''
            return a + b

        model = ScriptedModel([Call("add", a=2, b=3), Say("5")])  # or "anthropic:claude-sonnet-5-5"
        agent = Agent(model, instructions="Answer briefly.", tools=[add])
        result = await agent.run("What is 2 + 3?")
        assert result.output == "5"
    """

    def __init__(  # noqa: PLR0913  # what an agent is made of
        self,
        model: "Model | Sequence[Model] | Configuration",
        *,
        instructions: "Instructions" = "",
        tools: "Iterable[AgentTool]" = (),
        mcp_servers: "Iterable[McpServerSettings]" = (),
        agents: "Iterable[SubAgent]" = (),
        model_settings: "ModelSettings | None" = None,
        patience: "Patience | None" = None,
        store: "str | Path" = "memory",
        workspace: "str | Path" = ".",
        budget: "Budget | None" = None,
        deps: "DepsT | None" = None,
        on_approval: "OnApproval | None" = None,
        on_question: "OnQuestion | None" = None,
        clock: "Clock | None" = None,
    ) -> None:
        text, self._write = text_or_function(instructions)
        insist_on_tools(tools)
        insist_on_patience(patience)
        insist_on_budget(budget)
        insist_on_handlers(on_approval=on_approval, on_question=on_question)
        self._models = () if isinstance(model, Configuration) else models_of(model, patience=patience)
        self._settings = checked_settings(model_settings, self._models)
        own = map(self._tool, tools)
        self._team = team_of(own, agents, models=self._models, tool_of=self._tool)
        made = self._team.tools
        asked_about = {one.spec.name for one in made if isinstance(one, FunctionTool) and one.needs_approval}
        judge = TrustedTools(frozenset(asked_about))
        registry = registry_of(made)
        # Sub-agents have their own instructions.
        self._text = text if self._team.has_agents else ""
        opened: Callable[[], AbstractAsyncContextManager[Runner]]
        if isinstance(model, Configuration):
            opened = model.opened(registry, judge, self._asked)
        else:
            parts = AgentParts(
                models=self._models,
                registry=registry,
                mcp_servers=_servers(mcp_servers),
                instructions="" if self._team.has_agents else text,
                workspace=Path(workspace).expanduser(),
                kept=kept_in(store),
                budget=budget or Budget(),
                judge=judge,
                on_ask=self._asked,
                clock=clock or SystemClock(),
            )
            opened = partial(_opened, parts)
        self._runtime = AgentRuntime(opened)
        self._deps = deps
        self._deps_of_runs: dict[str, DepsT] = {}
        self._on_approval = on_approval
        self._on_question = on_question
        self._entered: list[AsyncExitStack] = []

    @classmethod
    def from_config(
        cls,
        path: "str | Path | None" = None,
        *,
        tools: "Iterable[AgentTool]" = (),
        deps: "DepsT | None" = None,
        on_approval: "OnApproval | None" = None,
        on_question: "OnQuestion | None" = None,
    ) -> Self:
        """An agent as holdfast.toml describes it: models, tools, approvals, budget and store.

        Without a path it finds the file as `holdfast serve` does. `tools` are added to the configured ones.
        The data directory belongs to one program at a time.

        Example::

            from pathlib import Path
            from tempfile import TemporaryDirectory

            from holdfast import Agent

            with TemporaryDirectory() as folder:
                file = Path(folder) / "holdfast.toml"
                file.write_text(f'''
            [server]
            data_dir = "{folder}/data"

            [[targets]]
            name = "local"
            wire = "chat"
            base_url = "http://127.0.0.1:11434/v1"
            model = "llama4"
            ''')
                agent = Agent.from_config(file)
        """
        # Half of the server comes along, and most programs don't need it.
        from holdfast.embedding.configured import configuration

        return cls(
            configuration(path), tools=tools, deps=deps, on_approval=on_approval, on_question=on_question
        )

    def _tool(self, given: object) -> Tool:
        made = tool_of(cast("Callable[..., object]", given)) if isroutine(given) else given
        if not hasattr(made, "spec"):
            raise CannotBeTool(f"{given!r} is neither a function nor a Tool; write a function that calls it.")
        return made.with_deps(self._deps_of) if isinstance(made, FunctionTool) else cast("Tool", made)

    async def _deps_of(self, call: ToolCall) -> "DepsT | None":
        """The dependencies of the call's run; a sub-agent has those of its parent's run."""
        run_id = call.run_id
        if self._team.has_agents and run_id not in self._deps_of_runs:
            async with self._runtime.use() as runner:
                parent = (await runner.supervisor.view(call.session_id)).session.parent
            run_id = run_id if parent is None else parent.run_id
        return self._deps_of_runs.get(run_id, self._deps)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._runtime.use())
            self._entered.append(stack.pop_all())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._entered.pop().aclose()

    async def run(
        self,
        prompt: "Prompt",
        *,
        session: "str | AgentSession[DepsT] | None" = None,
        output_type: "type[OutputT] | OneOf[OutputT]" = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: "Budget | None" = None,
        model_settings: "ModelSettings | None" = None,
        deps: "DepsT | None" = None,
    ) -> "Result[OutputT]":
        """Run until there is a result; raises a `RunError` if there is none. Cancelling it stops the run.

        With `output_type` (a msgspec Struct, a dataclass, a TypedDict, a pydantic model or `one_of` several),
        the answer is a value of that type. Runs with the same `session` share a conversation.

        Example::

            from dataclasses import dataclass

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            @dataclass
            class City:
                name: str
                country: str

            agent = Agent(ScriptedModel([Say('{"name": "Bern", "country": "Switzerland"}')]))
            result = await agent.run("Where are you?", output_type=City)
            assert result.output == City("Bern", "Switzerland")
        """
        async with self.stream(
            prompt,
            session=session,
            output_type=output_type,
            budget=budget,
            model_settings=model_settings,
            deps=deps,
        ) as run:
            return await run.result()

    def run_sync(
        self,
        prompt: "Prompt",
        *,
        session: "str | AgentSession[DepsT] | None" = None,
        output_type: "type[OutputT] | OneOf[OutputT]" = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: "Budget | None" = None,
        model_settings: "ModelSettings | None" = None,
        deps: "DepsT | None" = None,
    ) -> "Result[OutputT]":
        """The same as `run`, for scripts without an event loop.

        Example::

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            assert Agent(ScriptedModel([Say("hello")])).run_sync("Say hello").output == "hello"
        """
        insist_on_no_loop("agent.run")
        return asyncio.run(
            self.run(
                prompt,
                session=session,
                output_type=output_type,
                budget=budget,
                model_settings=model_settings,
                deps=deps,
            )
        )

    def stream(
        self,
        prompt: "Prompt",
        *,
        session: "str | AgentSession[DepsT] | None" = None,
        output_type: "type[OutputT] | OneOf[OutputT]" = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: "Budget | None" = None,
        model_settings: "ModelSettings | None" = None,
        deps: "DepsT | None" = None,
    ) -> "RunStream[OutputT]":
        """Start a run to follow it: `async with agent.stream(…) as run:`. Leaving early stops the run.

        Example::

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            agent = Agent(ScriptedModel([Say("Once upon a time", chunk_chars=4)]))
            async with agent.stream("Tell me a story") as run:
                async for piece in run.text():
                    print(piece, end="")
        """
        request = self._request(prompt, session, output_type, budget, model_settings, deps)
        return RunStream(self._streamed(request))

    @asynccontextmanager
    async def _streamed(self, request: "_RunRequest[OutputT, DepsT]") -> "AsyncGenerator[RunHandle[OutputT]]":
        async with self._runtime.use() as runner:
            run = await self._send(runner, request)
            try:
                yield run
            except (ApprovalNeeded, AnswerNeeded):
                raise  # the run waits for the answer
            except BaseException:
                await run.stop()
                raise
            else:
                await run.stop()
            finally:
                self._deps_of_runs.pop(run.id, None)

    async def start(
        self,
        prompt: "Prompt",
        *,
        session: "str | AgentSession[DepsT] | None" = None,
        output_type: "type[OutputT] | OneOf[OutputT]" = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: "Budget | None" = None,
        model_settings: "ModelSettings | None" = None,
        deps: "DepsT | None" = None,
    ) -> "RunHandle[OutputT]":
        """Start a run and leave it to itself; the agent must be open (`async with agent:`).

        Example::

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            async with Agent(ScriptedModel([Say("done")])) as agent:
                run = await agent.start("Work")
                print(run.id)
                assert (await run.result()).output == "done"
        """
        request = self._request(prompt, session, output_type, budget, model_settings, deps)
        self._insist_on_open("start")
        async with self._runtime.use() as runner:
            run = await self._send(runner, request)
        if deps is not None:
            self._runtime.spawn(lambda _: self._forget_deps(run))
        return run

    async def attach(
        self,
        run_id: str,
        *,
        output_type: "type[OutputT] | OneOf[OutputT]" = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
    ) -> "RunHandle[OutputT]":
        """A run that was started before, also by an earlier process; the agent must be open.

        Example::

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            async with Agent(ScriptedModel([Say("done")])) as agent:
                run_id = (await agent.start("Work")).id
                run = await agent.attach(run_id)
                assert (await run.result()).output == "done"
        """
        wanted = output_type_of(output_type)
        self._insist_on_open("attach")
        async with self._runtime.use() as runner:
            return await self._handle(runner, run_id, wanted)

    async def open_runs(self) -> list[RunHandle[str]]:
        """The runs that have not ended, such as those that a crash interrupted; the agent must be open.

        Example::

            from holdfast import Agent
            from holdfast.testing import Hang, ScriptedModel

            async with Agent(ScriptedModel([Hang()])) as agent:
                run = await agent.start("Work")
                assert [one.id for one in await agent.open_runs()] == [run.id]
        """
        self._insist_on_open("open_runs")
        async with self._runtime.use() as runner:
            rows = [
                row
                for status in OPEN_STATUSES
                for row in await runner.store.runs(RunQuery(status=status, limit=OPEN_RUNS_MAX))
            ]
            return [await self._handle(runner, row.run_id, output_type_of(str)) for row in rows]

    def session(self, session_id: str = "") -> "AgentSession[DepsT]":
        """A conversation by its id; without an id, a new one.

        Example::

            from holdfast import Agent
            from holdfast.testing import Say, ScriptedModel

            session = Agent(ScriptedModel([Say("Hello Ann."), Say("Ann.")])).session("customer-42")
            await session.run("I am Ann.")
            assert (await session.run("Who am I?")).output == "Ann."
        """
        return AgentSession(self, _session_id(session_id or None))

    @property
    def runtime(self) -> AgentRuntime:
        """For sessions: the runner that the agent's runs share."""
        return self._runtime

    def _request(  # what a run is made of
        self,
        prompt: "Prompt",
        session: "str | AgentSession[DepsT] | None",
        output_type: "type[OutputT] | OneOf[OutputT]",
        budget: "Budget | None",
        model_settings: "ModelSettings | None",
        deps: "DepsT | None",
    ) -> "_RunRequest[OutputT, DepsT]":
        """What the program asks for; raises what is wrong with it, before anything begins."""
        insist_on_budget(budget)
        settings = checked_settings(model_settings, self._models).over(self._settings)
        output = output_type_of(output_type)
        run = settings.applied_to(RunSettings(budget=budget, output=output.format))
        return _RunRequest(checked_prompt(prompt), _session_id(session), output, run, deps)

    async def _send(self, runner: "Runner", request: "_RunRequest[OutputT, DepsT]") -> "RunHandle[OutputT]":
        from holdfast.runner.inbox import IncomingMessage, Sent

        insist_on_no_tool_child()
        session = request.session_id
        text, parts = await text_and_parts(request.prompt, runner.store)
        settings = await self._with_instructions(request, text)
        if self._team.has_agents:
            tools = runner.supervisor.deps.tools_now(session_id=session).specs()
            names = tuple([tool.name for tool in tools if tool.name not in self._team.hidden])
            settings = replace(settings, tools=names)
        sent = await runner.inbox.send(session, IncomingMessage(text=text, parts=parts, settings=settings))
        if not isinstance(sent, Sent):
            raise ConfigurationError(
                f"Session {session!r} can't take a message: {getattr(sent, 'why', sent)}."
            )
        # Nothing else ran since the message was stored, so no tool has missed it.
        if request.deps is not None:
            self._deps_of_runs[sent.run_id] = request.deps
        return await self._handle(runner, sent.run_id, request.output)

    async def _with_instructions(self, request: "_RunRequest[OutputT, DepsT]", prompt: str) -> RunSettings:
        """The settings of the run, with the instructions that are its own."""
        text = self._text
        if self._write is not None:
            deps = self._deps if request.deps is None else request.deps
            context = InstructionsContext(deps=deps, session_id=request.session_id, prompt=prompt)
            text = await written(self._write, context)
        return replace(request.settings, instructions=text) if text else request.settings

    async def _handle(
        self, runner: "Runner", run_id: str, output: OutputType[OutputT]
    ) -> "RunHandle[OutputT]":
        row = await runner.store.run(run_id)
        if row is None:
            raise ConfigurationError(f"There is no run {run_id!r} in this agent's store.", run_id=run_id)
        answered = {ApprovalAsked: self._on_approval, QuestionAsked: self._on_question}
        unanswered = tuple(kind for kind, handler in answered.items() if handler is None)
        return RunHandle(runner, row, output, unanswered=unanswered)

    async def _forget_deps(self, run: RunHandle[OutputT]) -> None:
        async for _ in run.events():
            pass
        self._deps_of_runs.pop(run.id, None)

    def _asked(self, session_id: str, asked: PersonAsked) -> None:
        """A run waits for a person: ask the program, if it said whom to ask."""
        approver, answerer = self._on_approval, self._on_question
        if approver is not None and isinstance(asked, ApprovalAsked):
            self._runtime.spawn(partial(decide, on_approval=approver, session_id=session_id, asked=asked))
        elif answerer is not None and isinstance(asked, QuestionAsked):
            self._runtime.spawn(partial(answer, on_question=answerer, session_id=session_id, asked=asked))

    def _insist_on_open(self, verb: str) -> None:
        if not self._runtime.is_open:
            raise ConfigurationError(
                f"agent.{verb} needs an open agent, because the run continues afterwards: "
                f"`async with agent: run = await agent.{verb}(…)`."
            )


def _servers(given: "Iterable[McpServerSettings]") -> "tuple[McpServerSettings, ...]":
    if given == ():
        return ()
    # Few agents have any, and the settings of a whole server come along.
    from holdfast.embedding.opening import checked_servers

    return checked_servers(given)


@asynccontextmanager
async def _opened(parts: AgentParts) -> "AsyncGenerator[Runner]":
    """Load the runtime, which takes a while the first time, and open the agent."""
    opening = await asyncio.to_thread(import_module, "holdfast.embedding.opening")
    async with opening.open_agent(parts) as runner:
        yield runner


def _session_id(session: "str | AgentSession[DepsT] | None") -> str:
    if session is None:
        return new_session_id()
    if isinstance(session, AgentSession):
        return session.id
    if not isinstance(session, str) or not session.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
        raise TypeError(
            f"session is the id of a session or what agent.session gave you, and not {session!r}."
        )
    return session
