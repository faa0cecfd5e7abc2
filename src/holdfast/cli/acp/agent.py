"""The agent that an editor talks to: sessions of a Holdfast server over the Agent Client Protocol.

It keeps nothing of its own: sessions, runs, approvals and questions are the server's, and an editor that
comes back reads the log.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.interfaces import Agent, Client
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
)

from holdfast import __version__
from holdfast.cli.acp.session import Block, EditorSession, asked
from holdfast.cli.attach import OK, Attached, with_server
from holdfast.client.address import ClientPatience
from holdfast.interfaces.ids import new_session_id

PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)
LISTED_AT_ONCE = 50
DEFAULT_MODEL = "default"

Option = SessionConfigOptionSelect | SessionConfigOptionBoolean


def serve_editor(flags: Mapping[str, object], *, model: str) -> int:
    """Talk to the editor on standard input and output until it leaves; the exit code."""

    async def work(attached: Attached) -> int:
        agent = EditorAgent(attached, model=model)
        try:
            # Methods of the protocol that it lacks are refused as unknown.
            await run_agent(cast("Agent", agent), use_unstable_protocol=True)
        finally:
            await agent.close()
        return OK

    return with_server(flags, work, works="all", patience=PATIENCE)


class EditorAgent:
    """What an editor can ask for."""

    def __init__(self, attached: Attached, *, model: str) -> None:
        self._attached = attached
        self._model = model
        self._editor: Client | None = None
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Client) -> None:
        """The editor is there."""
        self._editor = conn

    async def close(self) -> None:
        """Stop reading; runs continue."""
        for session in self._sessions.values():
            await session.close()

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        """What this agent can do."""
        del protocol_version, client_capabilities, client_info, kwargs
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="holdfast", title="Holdfast", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), resume=SessionResumeCapabilities()
                ),
            ),
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        """A session that begins with the first prompt."""
        del additional_directories, kwargs
        _say_unused(mcp_servers)
        session = self._open(new_session_id(), cwd)
        return NewSessionResponse(session_id=session.session_id, config_options=await self._options(session))

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Any] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse | None:
        """Open a session and tell all of it; what happens from then on follows."""
        del additional_directories, kwargs
        _say_unused(mcp_servers)
        session = await self._reopen(session_id, cwd, tells=True)
        return LoadSessionResponse(config_options=await self._options(session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> ResumeSessionResponse:
        """Open a session whose past the editor has; what happens from now on follows."""
        del additional_directories, kwargs
        _say_unused(mcp_servers)
        session = await self._reopen(session_id, cwd, tells=False)
        return ResumeSessionResponse(config_options=await self._options(session))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        """The sessions of the server, the newest first."""
        del kwargs
        page = await asked(self._attached.client.sessions(limit=LISTED_AT_ONCE, cursor=cursor or ""))
        sessions = [
            SessionInfo(
                session_id=one.session_id,
                cwd=one.workspace or self._workspace,
                title=one.title or one.preview or None,
                updated_at=datetime.fromtimestamp(one.updated_at, UTC).isoformat(),
            )
            for one in page.data
            if not cwd or (one.workspace or self._workspace) == cwd
        ]
        return ListSessionsResponse(sessions=sessions, next_cursor=page.next_cursor)

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> SetSessionConfigOptionResponse | None:
        """Choose the model of the session's next runs."""
        del kwargs
        session = self._known(session_id)
        if config_id != "model" or value not in await self._models():
            raise RequestError.invalid_params({"details": f"There is no {config_id} {value}."})
        session.model = "" if value == DEFAULT_MODEL else str(value)
        return SetSessionConfigOptionResponse(config_options=await self._options(session))

    async def prompt(self, session_id: str, prompt: list[Block], **kwargs: Any) -> PromptResponse:
        """Send a message, and wait for the end of its run."""
        del kwargs
        return await self._known(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop what the session does."""
        del kwargs
        if session_id in self._sessions:
            await self._sessions[session_id].stop()

    @property
    def _workspace(self) -> str:
        return str(self._attached.directory.settings.workspace)

    def _open(self, session_id: str, cwd: str) -> EditorSession:
        assert self._editor is not None, "the editor connected first"
        session = EditorSession(self._attached.client, self._editor, session_id=session_id, workspace=cwd)
        session.model = self._model
        self._sessions[session_id] = session
        return session

    def _known(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise RequestError.invalid_params({"details": "Open the session first, with session/load."})
        return self._sessions[session_id]

    async def _reopen(self, session_id: str, cwd: str, *, tells: bool) -> EditorSession:
        found = await asked(self._attached.client.session(session_id))
        if session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        session = self._open(session_id, found.workspace or cwd)
        try:
            await session.open(tells=tells)
        except RequestError:
            del self._sessions[session_id]
            raise
        return session

    async def _models(self) -> Mapping[str, str]:
        """The models to choose from, by the name of their target."""
        targets = await asked(self._attached.client.targets())
        return {DEFAULT_MODEL: "Default", **{one.name: one.model or one.name for one in targets}}

    async def _options(self, session: EditorSession) -> list[Option]:
        models = await self._models()
        return [
            SessionConfigOptionSelect(
                type="select",
                id="model",
                name="Model",
                category="model",
                current_value=session.model or DEFAULT_MODEL,
                options=[SessionConfigSelectOption(value=one, name=name) for one, name in models.items()],
            )
        ]


def _say_unused(mcp_servers: Sequence[object] | None) -> None:
    if mcp_servers:
        print(
            "holdfast: the editor's MCP servers are not used; list them in Holdfast's own configuration",
            file=sys.stderr,
        )
