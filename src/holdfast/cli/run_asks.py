"""What a single run asks: put to the person at the terminal, or refused when there is nobody."""

import asyncio
import sys
from typing import TYPE_CHECKING, assert_never

from holdfast import events as e
from holdfast.cli.asking import Reply, Unclear, Verdict, read_answer
from holdfast.cli.run_output import Output
from holdfast.cli.terminal.phrases import approval_text, question_text
from holdfast.cli.terminal.renderer import Asked, ask_id
from holdfast.cli.terminal.style import Ink
from holdfast.client.errors import ClientError, Refused
from holdfast.safe_text import exact, safe_line

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from holdfast.client import Client

NOBODY = "no_approver: this run is unattended, nobody is there to ask"
AGAIN_S = 2.0  # an answer that came too late is settled in the log by then
_SETTLED = (
    e.ApprovalAnswered,
    e.ApprovalExpired,
    e.ApprovalWithdrawn,
    e.QuestionAnswered,
    e.QuestionExpired,
    e.QuestionWithdrawn,
)


def is_attended() -> bool:
    """Whether a person sits at this terminal; the answer of a run may go elsewhere."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Asks:
    """Answers approvals and questions one after the other; another client may answer them first."""

    def __init__(self, client: "Client", output: Output, *, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._client = client
        self._output = output
        self._open: dict[str, Asked] = {}
        self._asking: asyncio.Task[None] | None = None
        self._about = ""

    async def hear(self, event: e.Event) -> None:
        """One more event of the run."""
        if isinstance(event, e.ApprovalAsked | e.QuestionAsked):
            if not is_attended():
                await self._refuse(event)
                return
            self._open[ask_id(event)] = event
            self._next()
        elif isinstance(event, _SETTLED):
            key = event.approval_id if hasattr(event, "approval_id") else event.question_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
            await self._settled(str(key))  # pyright: ignore[reportUnknownArgumentType]

    async def close(self) -> None:
        """Ask nothing more."""
        self._open.clear()
        await self._settled(self._about)

    async def _settled(self, key: str) -> None:
        self._open.pop(key, None)
        if self._asking is not None and key == self._about:
            self._asking.cancel()
            await asyncio.wait({self._asking})
            self._asking, self._about = None, ""
            await self._output.speak()
            self._next()

    def _next(self) -> None:
        if self._asking is None and self._open:
            self._about, asked = next(iter(self._open.items()))
            self._asking = asyncio.create_task(self._asked(asked))

    async def _asked(self, asked: Asked) -> None:
        """Ask until the answer is taken; what is settled meanwhile cancels this."""
        while True:
            try:
                return await self._ask(asked)
            except ClientError as error:
                await asyncio.to_thread(_tell, Ink().line(f"✗ {safe_line(str(error))}", "red"))
                await asyncio.sleep(self._again_s)

    async def _ask(self, asked: Asked) -> None:
        await self._output.hush()
        ink = Ink()
        rule = None
        if isinstance(asked, e.ApprovalAsked) and {"session", "always"} & set(asked.choices):
            rule = await self._client.rule(asked.run_id, asked.approval_id, choice="session")
        shown = (
            approval_text(ink, asked, rule)
            if isinstance(asked, e.ApprovalAsked)
            else question_text(ink, asked)
        )
        await asyncio.to_thread(_tell, shown)
        reading = _session()
        while True:
            try:
                typed = await reading.prompt_async("answer> ")
            except (KeyboardInterrupt, EOFError):
                await self._stop(asked.run_id)
                return
            answer = read_answer(asked, typed)
            match answer:
                case Unclear():
                    await asyncio.to_thread(_tell, ink.dim(answer.hint))
                    continue
                case Verdict():
                    await self._decide(asked, answer)
                case Reply():
                    await self._client.answer(asked.run_id, ask_id(asked), answer=answer.text)
                case _:
                    assert_never(answer)
            return

    async def _decide(self, asked: Asked, verdict: Verdict) -> None:
        await self._client.approve(asked.run_id, ask_id(asked), choice=verdict.choice, reason=verdict.reason)

    async def _stop(self, run_id: str) -> None:
        try:
            await self._client.stop(run_id)
        except Refused as error:
            if error.code != "run_not_found":
                raise

    async def _refuse(self, asked: Asked) -> None:
        """Silence is never consent: say no, and say here how to get a yes."""
        if isinstance(asked, e.ApprovalAsked):
            await self._output.say(
                f"holdfast: refused, because nobody is there to ask: {exact(asked.action.summary)}\n"
                "  Run it in a terminal, or allow it by a rule under [approvals] in holdfast.toml.\n"
            )
            await self._client.approve(asked.run_id, asked.approval_id, choice="deny", reason=NOBODY)
        else:
            await self._output.say(f"holdfast: nobody is there to answer: {exact(asked.text)}\n")
            await self._client.answer(asked.run_id, asked.question_id, answer=f"({NOBODY})")


def _session() -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    return PromptSession(output=create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr))


def _tell(text: str) -> None:
    print(text, end="", file=sys.stdout if sys.stdout.isatty() else sys.stderr, flush=True)
