"""One session that an editor has open: its log is followed and told, and prompts become runs."""

import asyncio
import base64
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AudioContentBlock,
    ContentToolCallContent,
    DeniedOutcome,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PermissionOption,
    PermissionOptionKind,
    PromptResponse,
    ResourceContentBlock,
    StopReason,
    TextContentBlock,
    TextResourceContents,
    ToolCallUpdate,
    Usage,
)

from holdfast import events as e
from holdfast.cli.acp.updates import agent_text, entry_updates, event_updates
from holdfast.client.client import Client as HoldfastClient
from holdfast.client.errors import ClientError, Refused
from holdfast.client.updates import Seen
from holdfast.folds.rows import run_of
from holdfast.folds.run import Run
from holdfast.folds.session_fold import SessionFold
from holdfast.racing import race
from holdfast.values import CHAT, Choice

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
INTERNAL_ERROR = -32603
_DENY: Choice = "deny"
_Result = TypeVar("_Result")
_STOPS: Mapping[str, StopReason] = {
    "completed": "end_turn",
    "refused": "refusal",
    "truncated": "max_tokens",
    "budget": "max_turn_requests",
    "cancelled": "cancelled",
}
_OPTIONS: Mapping[Choice, tuple[str, PermissionOptionKind]] = {
    "once": ("Allow once", "allow_once"),
    "session": ("Allow in this session", "allow_always"),
    "always": ("Always allow", "allow_always"),
    "deny": ("Deny", "reject_once"),
}


async def asked(request: Awaitable[_Result]) -> _Result:
    """The server's answer; raises what an editor shows."""
    try:
        return await request
    except ClientError as error:
        raise failed(error) from error


def failed(error: ClientError) -> RequestError:
    """Why the server didn't do it."""
    return RequestError(INTERNAL_ERROR, str(error), {"details": str(error)})


class EditorSession:
    """Reads the log of a session for the editor; the log alone says what has happened."""

    def __init__(self, client: HoldfastClient, editor: Client, *, session_id: str, workspace: str) -> None:
        self.session_id = session_id
        self.model = ""
        self._client = client
        self._editor = editor
        self._workspace = workspace
        self._fold = SessionFold()
        self._following: asyncio.Task[None] | None = None
        self._permissions: dict[str, asyncio.Task[None]] = {}
        self._prompts: dict[str, asyncio.Future[None]] = {}  # by the run that each waits for

    async def close(self) -> None:
        """Stop reading; the runs continue."""
        tasks = [*self._permissions.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def open(self, *, tells: bool) -> None:
        """Read the log so far, and tell it if that is wanted; the rest is told as it comes."""
        page = await asked(self._client.messages(self.session_id, limit=1))
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._following = asyncio.create_task(self._follow(page.last_seq, reached, tells=tells))
        await race(watched=(reached, self._following))
        if self._following.done():
            self._following.result()

    async def _follow(self, upto: int, reached: "asyncio.Future[None]", *, tells: bool) -> None:
        """Read the log for good; what it has up to `upto` is told as a transcript, if at all."""
        try:
            async with aclosing(self._client.watch_session(self.session_id)) as heard:
                async for one in heard:
                    if not isinstance(one, Seen):
                        continue
                    self._fold.apply(one.seq, one.event)
                    if one.seq == upto:
                        await self._catch_up(tells=tells)
                        reached.set_result(None)
                    elif one.seq > upto:
                        await self._tell(one.event)
        except ClientError as error:
            for waiting in self._prompts.values():
                if not waiting.done():
                    waiting.set_exception(failed(error))
            raise failed(error) from error

    async def _catch_up(self, *, tells: bool) -> None:
        if tells:
            for entry in self._fold.transcript.entries:
                for update in entry_updates(entry, self._workspace):
                    await self._editor.session_update(self.session_id, update)
        for run in self._fold.session.runs.values():
            for ask in run.open_asks:
                if isinstance(ask.asked, e.ApprovalAsked):
                    self._ask(ask.asked)

    async def _tell(self, event: e.Event) -> None:
        run = self._fold.runs.get(run_of(event))
        if run is None:
            return
        for update in event_updates(event, run, self._workspace):
            await self._editor.session_update(self.session_id, update)
        if isinstance(event, e.ApprovalAsked):
            self._ask(event)
        elif isinstance(event, e.QuestionAsked):
            # An editor shows text and no question, so the next prompt is the answer.
            text = "\n".join([f"\n{event.text}", *(f"- {choice}" for choice in event.choices)])
            await self._editor.session_update(self.session_id, agent_text(text, event.question_id))
            self._settle(event.run_id)
        elif isinstance(event, e.AskSettled):
            if (asking := self._permissions.pop(event.ask_id, None)) is not None:
                asking.cancel()  # it was answered elsewhere, or here
        elif isinstance(event, e.RunEnded):
            self._settle(event.run_id)

    def _ask(self, event: e.ApprovalAsked) -> None:
        task = asyncio.create_task(self._permission(event))
        self._permissions[event.approval_id] = task
        task.add_done_callback(lambda _: self._permissions.pop(event.approval_id, None))

    async def _permission(self, event: e.ApprovalAsked) -> None:
        """Ask the person in the editor about one exact action; any other answer than a choice denies it."""
        findings = "\n".join([event.action.diff or event.action.summary, *event.findings])
        block = TextContentBlock(type="text", text=findings)
        response = await self._editor.request_permission(
            session_id=self.session_id,
            tool_call=ToolCallUpdate(
                tool_call_id=event.tool_call_id,
                title=event.headline or event.action.summary,
                content=[ContentToolCallContent(type="content", content=block)],
            ),
            options=[
                PermissionOption(option_id=choice, name=_OPTIONS[choice][0], kind=_OPTIONS[choice][1])
                for choice in event.choices
            ],
        )
        chosen = None if isinstance(response.outcome, DeniedOutcome) else response.outcome.option_id
        offered: dict[str, Choice] = {str(one): one for one in event.choices}
        choice = offered.get(chosen or "", _DENY)
        try:
            await self._client.approve(event.run_id, event.approval_id, choice=choice)
        except Refused:
            return  # it was answered elsewhere, or the run was stopped
        except ClientError as error:
            raise failed(error) from error

    async def stop(self) -> None:
        """Stop the session's open runs."""
        for run in list(self._fold.session.runs.values()):
            if run.outcome is None:
                try:
                    await self._client.stop(run.run_id)
                except Refused:
                    continue  # it ended by itself

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Send the message, or the answer to an open question; returns when the run ends or asks one."""
        text, parts = await self._message(blocks)
        if (question := self._open_question()) is not None:
            run_id = question.run_id
            waiting = self._waiting(run_id)
            await asked(self._client.answer(run_id, question.question_id, answer=text))
        else:
            more: dict[str, Any] = {"workspace": self._workspace, "origin": CHAT, "parts": parts}
            start = self._client.start(text, session_id=self.session_id, model=self.model, more=more)
            run_id = (await asked(start)).run_id
            waiting = self._waiting(run_id)
        if self._following is None:
            self._follow_from_the_start()
        await waiting
        return _response(self._fold.session.runs[run_id])

    def _follow_from_the_start(self) -> None:
        """A new session: everything in its log is news, except the message itself."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._following = asyncio.create_task(self._follow(0, reached, tells=False))

    def _waiting(self, run_id: str) -> "asyncio.Future[None]":
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._prompts[run_id] = waiting
        run = self._fold.session.runs.get(run_id)
        if run is not None and run.outcome is not None:
            self._settle(run_id)
        return waiting

    def _settle(self, run_id: str) -> None:
        waiting = self._prompts.pop(run_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _open_question(self) -> e.QuestionAsked | None:
        asks = (ask.asked for run in self._fold.session.runs.values() for ask in run.open_asks)
        return next((one for one in asks if isinstance(one, e.QuestionAsked)), None)

    async def _message(self, blocks: Sequence[Block]) -> tuple[str, list[dict[str, str]]]:
        """The text of a prompt, and what is attached to it."""
        texts: list[str] = []
        parts: list[dict[str, str]] = []
        for block in blocks:
            match block:
                case TextContentBlock():
                    texts.append(block.text)
                case ResourceContentBlock():
                    texts.append(f"[{block.name}]({block.uri})")
                case EmbeddedResourceContentBlock(resource=TextResourceContents() as file):
                    texts.append(f'<file uri="{file.uri}">\n{file.text}\n</file>')
                case EmbeddedResourceContentBlock():
                    file = block.resource
                    name = await self._uploaded(getattr(file, "blob", ""))
                    kind = file.mime_type or "application/octet-stream"
                    parts.append(
                        {"type": "file", "blob": name, "media_type": kind, "name": str(file.uri)[-200:]}
                    )
                case ImageContentBlock():
                    name = await self._uploaded(block.data)
                    parts.append({"type": "image", "blob": name, "media_type": block.mime_type})
                case AudioContentBlock():
                    raise RequestError.invalid_params({"details": "Audio is not supported."})
        return "\n".join(texts), parts

    async def _uploaded(self, data: str) -> str:
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            raise RequestError.invalid_params({"details": "The attachment is not valid Base64."}) from None
        return await asked(self._client.upload(content))


def _response(run: Run) -> PromptResponse:
    """How a prompt ended; raises if the run failed."""
    if run.outcome is None:
        return PromptResponse(stop_reason="end_turn")  # it asks a question
    if run.outcome not in _STOPS:
        text = run.failure.text if run.failure else run.cause or str(run.outcome)
        raise RequestError(INTERNAL_ERROR, text, {"details": text, "run_id": run.run_id})
    used = run.usage
    return PromptResponse(
        stop_reason=_STOPS[run.outcome],
        usage=Usage(
            total_tokens=used.input_tokens + used.output_tokens,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            thought_tokens=used.reasoning_tokens,
            cached_read_tokens=used.cached_tokens,
            cached_write_tokens=used.cache_write_tokens,
        ),
    )
