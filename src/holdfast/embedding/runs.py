"""One run in the hands of a program: follow it, steer it, stop it, wait for its result.

A run to follow, before it has started: what `agent.stream` gives you.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn

from typing_extensions import override

from holdfast.embedding.approvals import arguments_of
from holdfast.embedding.errors import AnswerNeeded, ApprovalNeeded, ConfigurationError
from holdfast.embedding.output_types import OutputType
from holdfast.embedding.results import OutputT, Result, error_of
from holdfast.events import ChildAsked, Event, PersonAsked, QuestionAsked, QueueResumed, RunEnded
from holdfast.folds.context import context_for
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.session_fold import RunReplay
from holdfast.interfaces.journal import Record
from holdfast.runner.asks import Answered, ApprovalVerdict, AskAnswer, QuestionAnswer
from holdfast.values import MODES, Choice

if TYPE_CHECKING:
    from holdfast.host.runtime import Runner


class RunHandle(Generic[OutputT]):
    """A run that is under way, or over: what `agent.start`, `agent.stream` and `agent.attach` give you.

    `async for event in run` gives its events from the first to the last, and ends when the run has ended.
    Events come from the log, so you can iterate as often as you like, also after the end.

    Example::

        from holdfast import Agent
        from holdfast.testing import Say, ScriptedModel

        async with Agent(ScriptedModel([Say("hello")])) as agent:
            run = await agent.start("Say hello")
            async for record in run.events():
                print(record.seq, record.event)
            assert (await run.result()).output == "hello"
    """

    def __init__(
        self,
        runner: "Runner",
        row: RunRow,
        output: OutputType[OutputT],
        *,
        unanswered: tuple[type[PersonAsked], ...],
    ) -> None:
        self._runner = runner
        self._row = row
        self._output = output
        self._unanswered = unanswered  # the kinds of asks that no handler of the agent takes

    @override
    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"

    @property
    def id(self) -> str:
        """The run's id, which `agent.attach` takes."""
        return self._row.run_id

    @property
    def session_id(self) -> str:
        """The session that the run belongs to."""
        return self._row.session_id

    async def __aiter__(self) -> "AsyncIterator[Event]":
        async for record in self.events():
            yield record.event

    async def events(self, after: int = 0) -> AsyncIterator[Record]:
        """The run's records (`seq` and `event`) after a seq, up to its ending; waits for those to come."""
        first = max(after, self._row.first_seq - 1)
        row = await self._runner.store.run(self.id)
        if row is not None and row.status == "ended" and row.last_seq <= after:
            return
        async for records in self._runner.store.follow(self.session_id, after=first):
            for record in records:
                if run_of(record.event) == self.id:
                    yield record
                    if isinstance(record.event, RunEnded):
                        return

    async def text(self) -> AsyncIterator[str]:
        """The answer's text, piece by piece, for readers that can't take back what they showed."""
        replay = RunReplay(self.id)
        async for record in self.events():
            run = replay.apply(record.seq, record.event)
            if run is not None and run.added_text:
                yield run.added_text

    async def result(self) -> "Result[OutputT]":
        """Wait for the end. Raises a RunError, such as RunFailed, if the run doesn't complete."""
        replay = RunReplay(self.id)
        events: list[Event] = []
        async for record in self.events():
            replay.apply(record.seq, record.event)
            events.append(record.event)
            child = record.event.child_id if isinstance(record.event, ChildAsked) else ""
            asked = record.event.ask if isinstance(record.event, ChildAsked) else record.event
            if isinstance(asked, self._unanswered):
                await self._insist_on_answer(asked, child or self.session_id)
        run = replay.fold
        assert run is not None, "a run begins with its queueing"
        if run.state.outcome != "completed":
            raise error_of(run.state, run.output)
        view = await self._runner.supervisor.view(self.session_id)
        return Result(
            output=self._output.value(run.output, run_id=self.id),
            usage=run.state.usage,
            run_id=self.id,
            session_id=self.session_id,
            messages=context_for(view.transcript, self.id),
            events=tuple(events),
            outcome=run.state.outcome,
        )

    async def _insist_on_answer(self, asked: PersonAsked, session_id: str) -> None:
        """Raise if the ask is still open: the run would wait for nobody."""
        row = await self._runner.store.ask(asked.ask_id)
        if row is None or row.state != "open":
            return
        if isinstance(asked, QuestionAsked):
            text = (
                f"A tool asks: {asked.text[:500]} Answer with run.answer while the agent is open, or pass "
                "on_question= to the agent."
            )
            raise AnswerNeeded(
                text,
                run_id=self.id,
                question_id=asked.question_id,
                question=asked.text,
                choices=asked.choices,
            )
        text = (
            f"The run waits for an approval: {asked.action.summary[:500]} ({'; '.join(asked.findings)}) "
            "Answer with run.approve or run.deny, or pass on_approval= to the agent."
        )
        arguments = await arguments_of(self._runner, asked, session_id=session_id)
        raise ApprovalNeeded(
            text, run_id=self.id, approval_id=asked.approval_id, action=asked.action, arguments=arguments
        )

    async def stop(self) -> bool:
        """Stop the run and wait until nothing of it is running; False if it had ended before."""
        inbox = self._runner.inbox
        if not await inbox.stop(self.session_id, self.id):
            return False
        async for _ in self.events():
            pass
        # A person who stops a run may not want what waits behind it; a program that waits for it does.
        if (await inbox.state(self.session_id)).queue_paused:
            await inbox.put(self.session_id, QueueResumed(at_ms=self._runner.clock.now_ms()))
        return True

    async def steer(self, text: str) -> None:
        """Say something to the run while it works; the model sees it with its next call."""
        from holdfast.runner.inbox import IncomingMessage, NotSent

        sent = await self._runner.inbox.steer(self.session_id, self.id, message=IncomingMessage(text=text))
        if isinstance(sent, NotSent):
            why = "it has ended" if sent.why == "run_over" else "too many messages wait for it already"
            raise ConfigurationError(f"The run can't be steered: {why}.", run_id=self.id)

    async def approve(self, approval_id: str) -> None:
        """Let the run do the one exact action that it waits for."""
        await self._answer(approval_id, "once")

    async def deny(self, approval_id: str, reason: str = "") -> None:
        """Don't let the run do it; the model is told the reason and continues."""
        await self._answer(approval_id, "deny", reason)

    async def answer(self, question_id: str, text: str) -> None:
        """Answer a question that a tool of the run asks."""
        if not await self._is_answered(question_id, QuestionAnswer(text)):
            raise ConfigurationError(
                f"Question {question_id!r} can't be answered: it was answered before, or it is closed.",
                run_id=self.id,
            )

    async def _answer(self, approval_id: str, choice: Choice, reason: str = "") -> None:
        if not await self._is_answered(
            approval_id, ApprovalVerdict(choice, reason=reason, mode_max=MODES[-1])
        ):
            raise ConfigurationError(
                f"Approval {approval_id!r} can't be answered: it was answered before, or has expired.",
                run_id=self.id,
            )

    async def _is_answered(self, ask_id: str, answer: AskAnswer) -> bool:
        """Answer an ask of this run, and of no other."""
        run = (await self._runner.inbox.state(self.session_id)).runs.get(self.id)
        if run is None or ask_id not in run.person_asks:
            return False
        return isinstance(await self._runner.inbox.answer(ask_id, answer), Answered)


HOW_TO_WRITE_IT = (
    "A stream is a block, because leaving it stops the run. Write `async with agent.stream(…) as run:`, "
    "and in it `async for event in run:` or `async for piece in run.text():`."
)


class RunStream(AbstractAsyncContextManager[RunHandle[OutputT]], Generic[OutputT]):
    """Starts a run when its block begins; if the run hasn't ended when the block ends, it is stopped."""

    def __init__(self, opened: AbstractAsyncContextManager[RunHandle[OutputT]]) -> None:
        self._opened = opened

    @override
    async def __aenter__(self) -> RunHandle[OutputT]:
        return await self._opened.__aenter__()

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # a type checker refuses these, and says why

        def __aiter__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __await__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __enter__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __exit__(self, *_: object) -> None:
            """Python looks for it before it calls `__enter__`."""
