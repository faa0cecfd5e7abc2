"""The client: one method for each operation of a server."""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from holdfast import events as e
from holdfast.api.access import KeyList, KeyMade, KeyShown, SignInLink
from holdfast.api.approvals import AskList, GrantList, GrantShown, OpenAsk, RulePreview
from holdfast.api.children import ChildList
from holdfast.api.live import BackgroundOutput, SessionLive
from holdfast.api.nodes import NodeList, NodeShown
from holdfast.api.runs import Accepted, RunPage, RunShown, Started
from holdfast.api.server import BlobStored, Capabilities, HealthShown, TargetList, TargetState, TargetTried
from holdfast.api.sessions import (
    ApprovalModeShown,
    ContextShown,
    Forked,
    QueueShown,
    SessionMade,
    SessionPage,
    SessionShown,
    TranscriptPage,
)
from holdfast.client.address import Address, ClientPatience, Where, at
from holdfast.client.decoding import decoded
from holdfast.client.errors import BadAnswer
from holdfast.client.exchange import ClientRequest, RetryingHttp
from holdfast.client.streams import events, hermes_frames
from holdfast.client.updates import Heard, HermesFrame, Seen
from holdfast.values import Choice, GrantRule, Width

ENDINGS = frozenset({"run.completed", "run.failed", "run.cancelled"})
SEQ_MAX = 2**53 - 1
SESSIONS_MAX = 200  # on a page of the list

_Json: TypeAlias = dict[str, Any]
_Body = TypeVar("_Body")


class Client:
    """A server as a program sees it; an async context manager.

    Requests are sent again while that is safe (each POST that creates carries an idempotency key), and
    streams continue from their cursor, so a restart of the server is a pause. Every method may raise
    `Refused`, `Unreachable` or `BadAnswer`.
    """

    def __init__(
        self,
        url: str = "",
        key: str = "",
        *,
        where: Where | None = None,
        patience: ClientPatience | None = None,
    ) -> None:
        self._exchange = RetryingHttp(where or at(Address(url, key)), patience or ClientPatience())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()

    @property
    def exchange(self) -> RetryingHttp:
        """The HTTP exchange itself, for protocols that have no methods here."""
        return self._exchange

    async def start(
        self,
        text: str,
        *,
        session_id: str = "",
        when_busy: Literal["queue", "steer", "redirect", "reject"] = "queue",
        model: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> Started:
        """Send a message; `more` are further fields of POST /v1/runs (instructions, workspace, …)."""
        body: dict[str, Any] = {"input": text, "when_busy": when_busy}
        body |= {"session_id": session_id} if session_id else {}
        body |= {"model": model} if model else {}
        return await self.post("/v1/runs", body | dict(more or {}), Started, once=_once())

    async def run(self, run_id: str) -> RunShown:
        """The current state of a run."""
        return await self.get(f"/v1/runs/{in_path(run_id)}", RunShown)

    async def runs(
        self, *, session_id: str = "", status: str = "", limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first."""
        query = {"session_id": session_id, "status": status, "limit": str(limit), "cursor": cursor}
        return await self.get("/v1/runs", RunPage, query=query)

    async def watch(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Heard]:
        """A run's events to its ending, its live line, and when the connection is lost and restored."""
        path = f"/v1/runs/{in_path(run_id)}/events"
        async with aclosing(events(self._exchange, path, view="native", after=after)) as found:
            async for one in found:
                yield one
                if isinstance(one, Seen) and isinstance(one.event, e.RunEnded):
                    return

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Seen]:
        """A run's events to its ending."""
        async with aclosing(self.watch(run_id, after=after)) as found:
            async for one in found:
                if isinstance(one, Seen):
                    yield one

    async def follow_hermes(self, run_id: str, *, after: int = 0) -> AsyncGenerator[HermesFrame]:
        """A run's frames as hermes clients know them, to its ending."""
        path = f"/v1/runs/{in_path(run_id)}/events"
        async with aclosing(hermes_frames(self._exchange, path, after=after)) as found:
            async for one in found:
                yield one
                if one.event in ENDINGS:
                    return

    async def ended(self, run_id: str) -> RunShown:
        """Wait for the run's ending, and show it."""
        async for _ in self.follow(run_id):
            pass
        return await self.run(run_id)

    async def stop(self, run_id: str) -> None:
        """Stop the run; raises Refused (404) if it's unknown or has ended."""
        await self.post(f"/v1/runs/{in_path(run_id)}/stop", {}, _Json, once=_once())

    async def steer(
        self, run_id: str, text: str, *, mode: Literal["steer", "redirect", "queue"] = "steer"
    ) -> Accepted:
        """Message an active run."""
        body = {"message": text, "mode": mode}
        return await self.post(f"/v1/runs/{in_path(run_id)}/messages", body, Accepted, once=_once())

    async def queue(self, session_id: str, text: str) -> Started:
        """Queue a message for the session's next run."""
        return await self.start(text, session_id=session_id)

    async def retry(self, run_id: str, *, session_id: str = "") -> Started:
        """Start a new run from the same input; it replaces this one. For a fork, name its session."""
        body = {"session_id": session_id} if session_id else {}
        return await self.post(f"/v1/runs/{in_path(run_id)}/retry", body, Started, once=_once())

    async def try_now(self, run_id: str) -> None:
        """Don't wait until the time that a provider named."""
        await self.post(f"/v1/runs/{in_path(run_id)}/gate", {"action": "try_now"}, _Json)

    async def approvals(self) -> Sequence[OpenAsk]:
        """All open approvals and questions."""
        return (await self.get("/v1/approvals", AskList)).data

    async def approve(
        self, run_id: str, approval_id: str, *, choice: Choice, reason: str = "", width: Width = "exact"
    ) -> None:
        """Answer one approval; raises Refused (409) if it's no longer open.

        It's sent again after a lost response, because the id makes it happen once; Refused may then mean that
        the first one arrived, which the log shows.
        """
        body = {"choice": choice, "approval_id": approval_id, "reason": reason}
        body |= {"width": width} if width != "exact" else {}
        await self.post(f"/v1/runs/{in_path(run_id)}/approval", body, _Json, once=_once())

    async def accept_plan(self, run_id: str, approval_id: str, steps: Sequence[str]) -> None:
        """Accept a plan with these steps in place of the proposed ones; raises Refused as `approve` does."""
        body = {
            "choice": "once",
            "approval_id": approval_id,
            "steps": [{"text": step} for step in steps],
        }
        await self.post(f"/v1/runs/{in_path(run_id)}/approval", body, _Json, once=_once())

    async def grants(self, *, session_id: str = "") -> Sequence[GrantShown]:
        """What is always allowed, and what is allowed in the session if one is named."""
        return (await self.get("/api/approvals/rules", GrantList, query={"session_id": session_id})).data

    async def all_grants(self, *, limit: int = 50, cursor: str = "") -> GrantList:
        """A page of what is allowed, always or in any session."""
        query = {"sessions": "all", "limit": str(limit), "cursor": cursor}
        return await self.get("/api/approvals/rules", GrantList, query=query)

    async def revoke_grant(self, grant_id: str, *, session_id: str = "") -> None:
        """Revoke a rule, everywhere or in one session; raises Refused (404) if there's none."""
        query = {"session_id": session_id} if session_id else {}
        await self._exchange.call(
            ClientRequest("DELETE", f"/api/approvals/rules/{in_path(grant_id)}", query=query)
        )

    async def rule(
        self, run_id: str, approval_id: str, *, choice: Literal["session", "always"], width: Width = "exact"
    ) -> GrantRule | None:
        """The rule that such an answer would store."""
        path = f"/v1/runs/{in_path(run_id)}/approval/{in_path(approval_id)}/rule"
        return (await self.get(path, RulePreview, query={"choice": choice, "width": width})).rule

    async def answer(self, run_id: str, question_id: str, *, answer: str) -> None:
        """Answer a question; raises Refused (409) if it's no longer open."""
        path = f"/v1/runs/{in_path(run_id)}/question/{in_path(question_id)}"
        await self.post(path, {"answer": answer}, _Json, once=_once())

    async def sessions(
        self, *, words: str = "", limit: int = 50, cursor: str = "", archived: str = "", children: str = ""
    ) -> SessionPage:
        """Sessions, newest first, or those that contain the words.

        With archived "true", archived ones; with children "true", those of sub-agents as well. A server
        returns SESSIONS_MAX at once, so more take several requests.
        """
        query = {"q": words, "archived": archived, "one_shots": "true", "children": children}
        query |= {"limit": str(min(limit, SESSIONS_MAX)), "cursor": cursor}
        page = await self.get("/api/sessions", SessionPage, query=query)
        found = page.data
        while page.next_cursor and len(found) < limit:
            query |= {"limit": str(min(limit - len(found), SESSIONS_MAX)), "cursor": page.next_cursor}
            page = await self.get("/api/sessions", SessionPage, query=query)
            found += page.data
        return msgspec.structs.replace(page, data=found)

    async def session(self, session_id: str) -> SessionShown:
        """A session as the list shows it."""
        return await self.get(_session(session_id), SessionShown)

    async def live(self, session_id: str) -> SessionLive:
        """What only the server that works on the session knows; any server asks it."""
        return await self.get(_session(session_id) + "/live", SessionLive)

    async def process(self, session_id: str, job_id: str) -> BackgroundOutput:
        """A process in the background, and the end of its output."""
        return await self.get(_process(session_id, job_id), BackgroundOutput)

    async def children(self, session_id: str) -> ChildList:
        """The sub-agents of a session, and theirs."""
        return await self.get(_session(session_id) + "/children", ChildList)

    async def messages(self, session_id: str, *, before: int = 0, limit: int = 100) -> TranscriptPage:
        """The newest entries of the transcript below a seq."""
        query = {"limit": str(limit), "before": str(before) if before else ""}
        return await self.get(_session(session_id) + "/messages", TranscriptPage, query=query)

    async def watch_session(
        self, session_id: str, *, after: int = 0, epoch: str = ""
    ) -> AsyncGenerator[Heard]:
        """The whole log of a session, endlessly.

        `epoch` says which log `after` is a seq of. If the session was purged and created again, its new log
        follows from the start: a second `session.created` shows it.
        """
        path = _session(session_id) + "/events"
        async with aclosing(events(self._exchange, path, after=after, epoch=epoch)) as found:
            async for one in found:
                yield one

    async def export(self, session_id: str, *, form: Literal["json", "md", "html"] = "json") -> bytes:
        """A session as a file."""
        asked = ClientRequest("GET", _session(session_id) + "/export", query={"format": form}, accept="*/*")
        return await self._exchange.call(asked)

    async def blob(self, name: str) -> bytes:
        """A whole tool output or attachment, by the name that an event gives it."""
        return await self._exchange.call(ClientRequest("GET", f"/api/blobs/{in_path(name)}", accept="*/*"))

    async def upload(self, data: bytes) -> str:
        """Store the bytes of an attachment; a part of a message names it by what this returns."""
        asked = ClientRequest("POST", "/api/blobs", data, _once(), accept="*/*")
        return (await self.send(asked, BlobStored)).blob

    async def rewind(self, session_id: str, to_seq: int) -> None:
        """Make what came after the seq count no more; raises Refused (409) while a run works or waits."""
        await self.post(_session(session_id) + "/rewind", {"to_seq": to_seq}, _Json, once=_once())

    async def compact(self, session_id: str, focus: str = "", *, client_id: str = "") -> Started:
        """Start a run that summarizes the conversation; raises Refused (409) if a run works or waits."""
        body = {"focus": focus, "client_id": client_id}
        return await self.post(_session(session_id) + "/compact", body, Started, once=_once())

    async def context(self, session_id: str, *, model: str = "") -> ContextShown:
        """What the session's next model call contains."""
        return await self.get(_session(session_id) + "/context", ContextShown, query={"model": model})

    async def pin(self, session_id: str, id_: str) -> ContextShown:
        """Keep a message, or a run's answer, in summaries; raises Refused (409) if the pins get too large."""
        body = {"id": id_}
        return await self.post(_session(session_id) + "/context/pin", body, ContextShown, once=_once())

    async def unpin(self, session_id: str, id_: str) -> ContextShown:
        """Let later summaries replace a message or an answer."""
        body = {"id": id_}
        return await self.post(_session(session_id) + "/context/unpin", body, ContextShown, once=_once())

    async def revert(self, session_id: str, seq: int, *, model: str = "") -> ContextShown:
        """Undo a compaction or trimming for the model; raises Refused (409) if its messages don't fit."""
        body = {"seq": seq, "model": model}
        return await self.post(_session(session_id) + "/context/revert", body, ContextShown)

    async def create_session(self, session_id: str, *, workspace: str = "", origin: str = "") -> SessionMade:
        """Make a session that no run has begun yet; raises Refused (409) if there is one."""
        body = {"id": session_id, "workspace": workspace, "origin": origin}
        return await self.post("/api/sessions", body, SessionMade, once=_once())

    async def rename(self, session_id: str, title: str) -> SessionShown:
        """Change the session's title."""
        asked = ClientRequest("PATCH", _session(session_id), {"title": title}, _once())
        return await self.send(asked, SessionShown)

    async def mark_read(self, session_id: str) -> None:
        """Mark everything in the session as read."""
        await self._exchange.call(
            ClientRequest("PATCH", _session(session_id), {"read_seq": SEQ_MAX}, _once())
        )

    async def delete(self, session_id: str) -> None:
        """Hide the session and purge it in a minute; until then it can be restored."""
        await self._exchange.call(ClientRequest("DELETE", _session(session_id)))

    async def purge(self, session_id: str) -> None:
        """Delete the session for good."""
        await self._exchange.call(ClientRequest("DELETE", _session(session_id), query={"now": "true"}))

    async def undelete(self, session_id: str) -> SessionShown:
        """Undo a deletion."""
        return await self.post(_session(session_id) + "/undelete", {}, SessionShown, once=_once())

    async def fork(self, session_id: str, *, at_seq: int | None = None) -> Forked:
        """A copy of the session, up to a seq."""
        body = {} if at_seq is None else {"at_seq": at_seq}
        return await self.post(_session(session_id) + "/fork", body, Forked, once=_once())

    async def queued(self, session_id: str) -> QueueShown:
        """The session's queue."""
        return await self.get(_session(session_id) + "/queue", QueueShown)

    async def change_queue(self, session_id: str, action: Literal["pause", "resume", "clear"]) -> QueueShown:
        """Pause, resume or clear the session's queue."""
        return await self.post(f"{_session(session_id)}/queue/{action}", {}, QueueShown, once=_once())

    async def move(self, session_id: str) -> SessionShown:
        """Let any server continue the session, though its files are on one that is gone."""
        return await self.post(_session(session_id) + "/move", {}, SessionShown, once=_once())

    async def set_approval_mode(self, session_id: str, mode: str) -> ApprovalModeShown:
        """Choose how actions of the session are approved; an empty mode is the configured one."""
        asked = ClientRequest("PUT", _session(session_id) + "/approval-mode", {"mode": mode}, _once())
        return await self.send(asked, ApprovalModeShown)

    async def nodes(self) -> Sequence[NodeShown]:
        """The servers that share the store."""
        return (await self.get("/api/nodes", NodeList)).data

    async def targets(self) -> Sequence[TargetState]:
        """The targets and their health, the default first."""
        return (await self.get("/api/targets", TargetList)).data

    async def try_target(self, name: str) -> TargetTried:
        """Make one tiny call to a target; raises Refused (409) while another such call is under way."""
        return await self.post(f"/api/targets/{in_path(name)}/try", {}, TargetTried)

    async def capabilities(self) -> Capabilities:
        """What the server can do, and what this client's key may do."""
        return await self.get("/v1/capabilities", Capabilities)

    async def health(self) -> HealthShown:
        """Whether the server is alive."""
        return await self.get("/health", HealthShown)

    async def keys(self) -> Sequence[KeyShown]:
        """The names of all keys."""
        return (await self.get("/api/keys", KeyList)).data

    async def add_key(self, name: str, scopes: Sequence[str] = ()) -> KeyMade:
        """Add a key, which may do everything if no scopes are named; its secret is shown only once."""
        named = {"scopes": list(scopes)} if scopes else {}
        return await self.post("/api/keys", {"name": name, **named}, KeyMade)

    async def sign_in_link(self) -> SignInLink:
        """A sign-in link for a browser, which then has the rights of this client's key."""
        return await self.post("/api/sign-in-links", None, SignInLink)

    async def revoke_key(self, name: str) -> None:
        """Revoke the key."""
        await self._exchange.call(ClientRequest("DELETE", f"/api/keys/{in_path(name)}"))

    async def get(self, path: str, kind: type[_Body], *, query: Mapping[str, str] | None = None) -> _Body:
        """Send a GET request; raises Refused and the other errors of `call`."""
        given = {name: value for name, value in (query or {}).items() if value}
        return await self.send(ClientRequest("GET", path, query=given), kind)

    async def post(self, path: str, body: Any, kind: type[_Body], *, once: str = "") -> _Body:
        """Send a POST request with a JSON body; `once` is its idempotency key."""
        return await self.send(ClientRequest("POST", path, body, once), kind)

    async def send(self, asked: ClientRequest, kind: type[_Body]) -> _Body:
        """Send a request and decode the response."""
        body = await self._exchange.call(asked)
        try:
            return decoded(body, kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadAnswer(
                f"{asked.method} {asked.path} wasn't answered by a Holdfast server: {error}"
            ) from error


def _once() -> str:
    return secrets.token_hex(16)


def in_path(name: str) -> str:
    """Quote a name for use in a path."""
    return quote(name, safe="", errors="surrogatepass")


def _session(session_id: str) -> str:
    return f"/api/sessions/{in_path(session_id)}"


def _process(session_id: str, job_id: str) -> str:
    return f"{_session(session_id)}/processes/{in_path(job_id)}"
