"""A conversation of an agent: its runs, one after the other, and what was said in them."""

from typing import TYPE_CHECKING, Generic, cast

from typing_extensions import TypeVar, override

from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.model_names import ModelSettings
from holdfast.embedding.output_types import OneOf
from holdfast.embedding.prompts import Prompt
from holdfast.embedding.results import OutputT, Result
from holdfast.embedding.runs import RunStream
from holdfast.folds.context import context_for
from holdfast.interfaces.ids import new_session_id
from holdfast.interfaces.journal import Appended, IfSessionNew
from holdfast.messages import Message
from holdfast.runner.forks import ForkSource, forked_log
from holdfast.runner.session_modes import SessionModes
from holdfast.values import Budget

if TYPE_CHECKING:
    from holdfast.embedding.agent import Agent
    from holdfast.events import Input

DepsT = TypeVar("DepsT", default=None)


class AgentSession(Generic[DepsT]):
    """A conversation: each run knows what was said before. `agent.session("…")` gives you one.

    Example::

        from holdfast import Agent
        from holdfast.testing import Say, ScriptedModel

        agent = Agent(ScriptedModel([Say("Hello Ann."), Say("You are Ann."), Say("Ann, still.")]))
        session = agent.session("customer-42")
        await session.run("I am Ann.")
        copy = await session.fork()
        await copy.run("Who am I?")
        assert len(await session.history()) == 2 and len(await copy.history()) == 4
    """

    def __init__(self, agent: "Agent[DepsT]", session_id: str) -> None:
        self._agent = agent
        self.id = session_id

    @override
    def __repr__(self) -> str:
        return f"<AgentSession {self.id}>"

    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: type[OutputT] | OneOf[OutputT] = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: Budget | None = None,
        model_settings: ModelSettings | None = None,
        deps: DepsT | None = None,
    ) -> Result[OutputT]:
        """The same as `agent.run`, in this conversation; a second run waits until the first has ended."""
        return await self._agent.run(
            prompt,
            session=self,
            output_type=output_type,
            budget=budget,
            model_settings=model_settings,
            deps=deps,
        )

    def stream(
        self,
        prompt: Prompt,
        *,
        output_type: type[OutputT] | OneOf[OutputT] = str,  # pyright: ignore[reportArgumentType]  # the default of OutputT
        budget: Budget | None = None,
        model_settings: ModelSettings | None = None,
        deps: DepsT | None = None,
    ) -> RunStream[OutputT]:
        """The same as `agent.stream`, in this conversation."""
        return self._agent.stream(
            prompt,
            session=self,
            output_type=output_type,
            budget=budget,
            model_settings=model_settings,
            deps=deps,
        )

    async def history(self) -> tuple[Message, ...]:
        """What was said, as the model sees it; empty for a conversation that has not begun."""
        async with self._agent.runtime.use() as runner:
            view = await runner.supervisor.view(self.id)
            begun = [run_id for run_id, run in view.transcript.runs.items() if run.has_begun]
            return context_for(view.transcript, begun[-1]) if begun else ()

    async def fork(self, *, at: int | None = None) -> "AgentSession[DepsT]":
        """A copy to continue from, up to the record with the seq `at`; by default the whole conversation."""
        async with self._agent.runtime.use() as runner:
            last_seq = await runner.store.last_seq(self.id)
            at_seq = last_seq if at is None else at
            if not 1 <= at_seq <= last_seq:
                what = "has not begun" if not last_seq else f"has the records 1 to {last_seq}"
                raise ConfigurationError(f"Session {self.id!r} can't be forked at {at_seq}: it {what}.")
            now_ms = runner.clock.now_ms()
            state, judge = await runner.inbox.state(self.id), runner.supervisor.deps.judge
            modes = SessionModes(runner.inbox, judge, runner.clock)
            source = ForkSource(self.id, state, await modes.limited(state))
            events = await forked_log(runner.store, source, at_seq=at_seq, judge=judge, now_ms=now_ms)
            session_id = new_session_id()
            # The copied events of runs need no owner: nobody runs in a log that does not exist yet.
            done = await runner.store.append(session_id, cast("list[Input]", events), when=[IfSessionNew()])
            assert isinstance(done, Appended), "a new id is free"
            return AgentSession(self._agent, session_id)
