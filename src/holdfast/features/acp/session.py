"""One session that an editor has open: its log is followed and told, and prompts become runs."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AudioContentBlock,
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
    Usage,
)

from holdfast import events as e
from holdfast.client.client import Client as HoldfastClient
from holdfast.client.errors import ClientError, Refused
from holdfast.client.updates import Seen
from holdfast.features.acp.editor_files import EditorFiles
from holdfast.features.acp.options import mode_update
from holdfast.features.acp.servers import EditorServers, GivenServer
from holdfast.features.acp.updates import (
    agent_text,
    card_of,
    entry_updates,
    event_updates,
    feature_updates,
    permission,
    user_text,
)
from holdfast.folds.asks import ask_event
from holdfast.folds.entries import Person
from holdfast.folds.rows import run_of
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunFold, SessionFold
from holdfast.policy.tool_names import tool_kind
from holdfast.values import CHAT, Action, Choice

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
INTERNAL_ERROR = -32603
_CODES = {400: -32602, 404: -32002, 409: -32602}  # what the editor asked for is wrong, or isn't there
NAME_CHARS_MAX = 200
CLOSED = "The session was closed or reopened. Its run continues. To follow it, use session/load."
_SETTLED = (404, 409)  # somebody else was first
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


async def answer_of(request: Awaitable[_Result]) -> _Result:
    """The server's answer; raises what an editor shows."""
    try:
        return await request
    except ClientError as error:
        raise failed(error) from error


def failed(error: ClientError) -> RequestError:
    """Why the server didn't do it."""
    code = _CODES.get(error.status, INTERNAL_ERROR) if isinstance(error, Refused) else INTERNAL_ERROR
    return RequestError(code, str(error), {"details": str(error)})


class EditorSession:
    """Reads the log of a session for the editor; the log alone says what has happened."""

    def __init__(
        self,
        client: HoldfastClient,
        editor: Client,
        *,
        session_id: str,
        workspace: str,
        files: EditorFiles | None = None,
    ) -> None:
        self.session_id = session_id
        self.model = ""
        self.withdraw: Callable[[str], Awaitable[None]] = (
            _ignored  # a permission request that is no longer awaited
        )
        self._client = client
        self._editor = editor
        self._workspace = workspace
        self._fold = SessionFold()
        self._seq = 0  # the last seq that was sent
        self._upto = 0  # up to which it was there when the session was opened
        self._following: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._warned: dict[str, asyncio.Task[None]] = {}  # since the last prompt, by path
        self._over: dict[
            str, str
        ] = {}  # told runs that wait for nothing but a prompt, by their open question
        self._started: set[str] = set()  # runs of this editor
        self._sending = asyncio.Lock()
        self._stops = 0
        self._modes_told = 0
        self._told = asyncio.Event()
        self._lost: RequestError | None = None  # why the log is no longer read
        self._files = files  # None: the editor doesn't show its files
        self._servers = EditorServers(client, session_id)
        self._notices: list[str] = []  # for the next prompt

    @property
    def mode(self) -> str:
        """The session's permission mode; empty if it's the configured one."""
        return self._fold.session.approval_mode

    async def set_mode(self, mode: str) -> None:
        """Set the permission mode. The editor is notified when it's logged."""
        told = self._modes_told
        await answer_of(self._client.set_approval_mode(self.session_id, mode))
        self._follow_on()
        await self._until(lambda: self._modes_told > told)

    async def close(self) -> None:
        """Stop reading; the runs continue."""
        await self._servers.close()
        tasks = [
            *self._asking.values(),
            *self._warned.values(),
            *([self._following] if self._following else []),
        ]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def connect_servers(self, given: Sequence[GivenServer]) -> None:
        """Use the editor's MCP servers in this session; raises RequestError."""
        self._notices += await self._servers.connect(given, self._workspace)

    async def open(self, *, tells: bool) -> None:
        """Read the log so far, and send it if requested; then stream new events."""
        page = await answer_of(self._client.messages(self.session_id, limit=1))
        self._upto = page.last_seq
        self._follow_on(tells=tells)
        await self._until(lambda: self._seq >= self._upto)

    def _follow_on(self, *, tells: bool = False) -> None:
        """Follow the log. Events before the session was opened are sent as a transcript, if at all."""
        if self._following is None or self._following.done():
            self._lost = None
            self._following = asyncio.create_task(self._follow(tells=tells))

    async def _follow(self, *, tells: bool) -> None:
        lost = RequestError(INTERNAL_ERROR, CLOSED, {"details": CLOSED})
        try:
            async with aclosing(self._client.watch_session(self.session_id, after=self._seq)) as heard:
                async for one in heard:
                    if isinstance(one, Seen):
                        await self._read(one, tells=tells)
        except ClientError as error:
            lost = failed(error)
        except ConnectionError:
            pass  # the editor has disconnected
        finally:
            self._lost = lost
            self._told.set()

    async def _read(self, seen: Seen, *, tells: bool) -> None:
        if seen.seq <= self._seq:
            # The session was purged and created again.
            self._fold, self._seq, self._upto = SessionFold(), 0, 0
        self._fold.apply(seen.seq, seen.event)
        if seen.seq < self._upto:
            return
        if self._seq < self._upto:
            await self._catch_up(tells=tells)
        else:
            await self._tell(seen.event)
        self._seq = seen.seq
        self._told.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until enough of the log was sent; raises if it's no longer read."""
        while not condition():
            if self._lost is not None:
                raise self._lost
            self._told.clear()
            await self._told.wait()

    async def _catch_up(self, *, tells: bool) -> None:
        if tells:
            await self._show_transcript()
        for run in self._fold.session.runs.values():  # the newest one counts
            self.model = run.settings.model
            if run.outcome is not None:
                self._over[run.run_id] = ""
            for ask in run.open_person_asks:
                if isinstance(ask.asked, e.ApprovalAsked):
                    self._ask(ask.asked)
                elif isinstance(ask.asked, e.QuestionAsked):
                    self._over[run.run_id] = ask.asked.question_id

    async def _show_transcript(self) -> None:
        seen = self._fold.transcript
        newest = {type(event): event for _, event in seen.kept}.values()
        updates = [update for entry in seen.entries for update in entry_updates(entry, self._workspace)]
        for update in (*updates, *(update for event in newest for update in feature_updates(event))):
            await self._editor.session_update(self.session_id, update)

    async def _tell(self, event: e.Event) -> None:
        await self._tell_mode(event)
        run = self._fold.runs.get(run_of(event))
        if run is None:
            return
        if isinstance(event, e.MessageDispatched):
            await self._tell_message(event, run)
        for update in event_updates(event, run, self._workspace):
            await self._editor.session_update(self.session_id, update)
        if isinstance(event, e.ToolAsked):
            self._warn_of_unsaved(event)
        if isinstance(event, e.RunEnded):
            self._over[event.run_id] = ""
        else:
            await self._tell_ask(ask_event(event), run.state.run_id)

    async def _tell_ask(self, event: e.Event, run_id: str) -> None:
        """Show a request of the run or one of its sub-agents."""
        if isinstance(event, e.ApprovalAsked):
            self._ask(event)
        elif isinstance(event, e.QuestionAsked):
            # An editor shows text and no question, so the next prompt is the answer.
            text = "\n".join([f"\n{event.text}", *(f"- {choice}" for choice in event.choices)])
            await self._editor.session_update(self.session_id, agent_text(text, event.question_id))
            self._over[run_id] = event.question_id
        elif isinstance(event, e.AskSettled):
            await self._settled(event, run_id)

    async def _tell_mode(self, event: e.Event) -> None:
        """That the session works in another way now."""
        if isinstance(event, e.ModeSet):
            self._modes_told += 1
            await self._editor.session_update(self.session_id, mode_update(self.mode))

    async def _tell_message(self, event: e.MessageDispatched, run: RunFold) -> None:
        """A message that was sent from elsewhere; the editor shows those that it sent itself."""
        async with self._sending:  # until it's known whose run this is
            is_own = event.run_id in self._started and event.message_id == run.state.message_id
        if not is_own:
            people = (
                entry.message
                for entry in reversed(self._fold.transcript.entries)
                if isinstance(entry, Person)
            )
            sent = (message.text for message in people if message.message_id == event.message_id)
            text = user_text(next(sent, run.message_text(event.message_id)), event.message_id)
            await self._editor.session_update(self.session_id, text)

    async def _settled(self, event: e.AskSettled, run_id: str) -> None:
        if (asking := self._asking.pop(event.ask_id, None)) is not None:
            asking.cancel()  # it was answered elsewhere, or here
            await self.withdraw(asking.get_name())
        if self._over.get(run_id) == event.ask_id:
            del self._over[run_id]

    def _warn_of_unsaved(self, event: e.ToolAsked) -> None:
        """Tell the person if a file tool is about to use a file that isn't saved."""
        path = event.args.get("path")
        if self._files is None or not isinstance(path, str) or tool_kind(event.name) not in {"read", "write"}:
            return
        if path not in self._warned:
            self._warned[path] = asyncio.create_task(self._warn(Path(self._workspace, path), self._files))

    async def _warn(self, path: Path, files: EditorFiles) -> None:
        if await files.has_unsaved_changes(path):
            text = (
                f"[{path.name} has unsaved changes in the editor. The agent doesn't see them: save the file.]"
            )
            await self._editor.session_update(self.session_id, agent_text(text, f"unsaved-{path}"))

    def _ask(self, event: e.ApprovalAsked) -> None:
        task = asyncio.create_task(self._permission(event), name=event.tool_call_id)
        self._asking[event.approval_id] = task
        task.add_done_callback(lambda _: self._asking.pop(event.approval_id, None))

    async def _permission(self, event: e.ApprovalAsked) -> None:
        """Ask the person in the editor about one exact action; any other answer than a choice denies it."""
        try:
            chosen = await self._chosen(event)
        except (RequestError, ValueError):
            chosen = ""  # the editor can't ask, or its answer makes no sense
        except ConnectionError:
            return  # it has left, so others can still answer
        offered: dict[str, Choice] = {str(one): one for one in event.choices}
        try:
            await self._client.approve(event.run_id, event.approval_id, choice=offered.get(chosen, _DENY))
        except ClientError as error:
            if isinstance(error, Refused) and error.status in _SETTLED:
                return  # it was answered elsewhere, or the run was stopped
            text = agent_text(f"[Your answer wasn't accepted: {error}]", event.approval_id)
            await self._editor.session_update(self.session_id, text)

    async def _chosen(self, event: e.ApprovalAsked) -> str:
        run = self._fold.runs.get(event.run_id)
        card = card_of(run, event.tool_call_id) if run is not None else None
        unsaved = await self._unsaved(event.action)
        about = msgspec.structs.replace(event, findings=(*event.findings, *unsaved))
        response = await self._editor.request_permission(
            session_id=self.session_id,
            tool_call=permission(about, card, self._workspace),
            options=[
                PermissionOption(option_id=choice, name=_OPTIONS[choice][0], kind=_OPTIONS[choice][1])
                for choice in event.choices
            ],
        )
        return "" if isinstance(response.outcome, DeniedOutcome) else response.outcome.option_id

    async def _unsaved(self, action: Action) -> list[str]:
        """Return warnings about files that an action is about to change."""
        if self._files is None or not action.diff:
            return []
        changed = [path for path in action.paths if await self._files.has_unsaved_changes(Path(path))]
        return [f"{path} has unsaved changes in the editor. The agent doesn't see them." for path in changed]

    async def stop(self) -> None:
        """Stop the session's open runs, and those that prompts are about to start."""
        self._stops += 1
        known = {run.run_id for run in self._fold.session.runs.values() if run.outcome is None}
        for run_id in sorted(known | self._started.difference(self._over)):
            await self._stop(run_id)

    async def _stop(self, run_id: str) -> None:
        try:
            await self._client.stop(run_id)
        except Refused as error:
            if error.status not in _SETTLED:
                raise failed(error) from error  # otherwise it ended on its own

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Send the message, or the answer to an open question; returns when the run ends or asks one."""
        stops = self._stops
        self._warned = {path: task for path, task in self._warned.items() if not task.done()}
        notices, self._notices = self._notices, []
        for notice in notices:
            await self._editor.session_update(self.session_id, agent_text(f"{notice}\n", "notices"))
        await self._servers.renew()
        text, parts = await self._message(blocks)
        if self._stops != stops:
            return PromptResponse(stop_reason="cancelled")
        answered = ""
        if (found := self._open_question()) is not None:
            run_id, question = found  # which a sub-agent of the run may have asked
            answered = question.question_id
            await answer_of(self._client.answer(question.run_id, answered, answer=text))
        else:
            run_id = await self._start(text, parts)
        if self._stops != stops:
            await self._stop(run_id)
        self._follow_on()
        await self._until(lambda: self._over.get(run_id, answered) != answered or self._has_ended(run_id))
        return _response(self._fold.session.runs[run_id])

    async def _start(self, text: str, parts: list[dict[str, str]]) -> str:
        more: dict[str, Any] = {"workspace": self._workspace, "origin": CHAT, "parts": parts}
        start = self._client.start(text, session_id=self.session_id, model=self.model, more=more)
        async with self._sending:
            run_id = (await answer_of(start)).run_id
            self._started.add(run_id)
        return run_id

    def _has_ended(self, run_id: str) -> bool:
        return self._over.get(run_id) == ""

    def _open_question(self) -> tuple[str, e.QuestionAsked] | None:
        """The run that waits for an answer, and the question."""
        runs = self._fold.session.runs.values()
        asks = ((run.run_id, ask.asked) for run in runs for ask in run.open_person_asks)
        return next(((id_, one) for id_, one in asks if isinstance(one, e.QuestionAsked)), None)

    async def _message(self, blocks: Sequence[Block]) -> tuple[str, list[dict[str, str]]]:
        """The text of a prompt, and what is attached to it."""
        texts: list[str] = []
        parts: list[dict[str, str]] = []
        for block in blocks:
            match block:
                case TextContentBlock():
                    texts.append(block.text)
                case ResourceContentBlock():
                    texts.append(await self._linked(block))
                case EmbeddedResourceContentBlock(resource=TextResourceContents() as file):
                    texts.append(f'<file uri="{file.uri}">\n{file.text}\n</file>')
                case EmbeddedResourceContentBlock():
                    file = block.resource
                    name = await self._uploaded(getattr(file, "blob", ""))
                    kind = file.mime_type or "application/octet-stream"
                    parts.append(
                        {"kind": "file", "blob": name, "media_type": kind, "name": _file_name(str(file.uri))}
                    )
                case ImageContentBlock():
                    name = await self._uploaded(block.data)
                    parts.append({"kind": "image", "blob": name, "media_type": block.mime_type})
                case AudioContentBlock():
                    raise RequestError.invalid_params({"details": "Audio is not supported."})
        return "\n".join(texts), parts

    async def _linked(self, block: ResourceContentBlock) -> str:
        """A link, and what the editor has there if that isn't saved."""
        unsaved = await self._files.linked(block.uri) if self._files else None
        link = f"[{block.name}]({block.uri})"
        if unsaved is None:
            return link
        return f'{link}\n<file uri="{block.uri}" state="with changes that aren\'t saved">\n{unsaved}\n</file>'

    async def _uploaded(self, data: str) -> str:
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            raise RequestError.invalid_params({"details": "The attachment is not valid Base64."}) from None
        return await answer_of(self._client.upload(content))


async def _ignored(_: str) -> None:
    """Do nothing: an editor without cancellation keeps prompting, and its answer has no effect."""


def _file_name(uri: str) -> str:
    return unquote(urlsplit(uri).path).rpartition("/")[2][-NAME_CHARS_MAX:] or "file"


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
