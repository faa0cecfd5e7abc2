"""An editor's agent: sessions of a Holdfast server over the Agent Client Protocol.

Stateless: sessions, runs, approvals and questions are the server's, and an editor that reconnects reads the
log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from acp import PROTOCOL_VERSION, RequestError
from acp.core import AgentSideConnection
from acp.interfaces import Agent, Client
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)

from holdfast import __version__
from holdfast.cli.attach import OK, Attached, with_server
from holdfast.cli.stdio_lines import StdioLines
from holdfast.client.address import ClientPatience
from holdfast.features.acp.editor_files import EditorFiles
from holdfast.features.acp.options import DEFAULT, MODE, MODEL, MODES, Option, chosen, mode_state, options
from holdfast.features.acp.servers import GivenServer
from holdfast.features.acp.session import Block, EditorSession, answer_of
from holdfast.features.acp.transport import EditorTransport
from holdfast.interfaces.ids import new_session_id
from holdfast.values import CHAT

PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)
LISTED_AT_ONCE = 50


Withdraw: TypeAlias = Callable[[str], Awaitable[None]]


def serve_editor(flags: Mapping[str, object], *, model: str) -> int:
    """Talk to the editor on standard input and output until it leaves; the exit code."""

    async def work(attached: Attached) -> int:
        lines = await StdioLines.open()
        transport = EditorTransport(lines.read, lines.write)
        agent = EditorAgent(attached, model=model, withdraw=transport.withdraw)
        # Methods of the protocol that it lacks are refused as unknown.
        connection = AgentSideConnection(
            cast("Agent", agent), transport, listening=False, use_unstable_protocol=True
        )
        try:
            await connection.listen()
        finally:
            await asyncio.shield(connection.close())
            await agent.close()
            lines.close()
        return OK

    return with_server(flags, work, works="all", patience=PATIENCE)


class EditorAgent:
    """The requests of an editor."""

    def __init__(self, attached: Attached, *, model: str, withdraw: Withdraw | None = None) -> None:
        self._attached = attached
        self._withdraw = withdraw
        self._model = model
        self._editor: Client | None = None
        self._sessions: dict[str, EditorSession] = {}
        self._shows_files = False

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
        """Return the capabilities of this agent."""
        del protocol_version, client_info, kwargs
        files = client_capabilities.fs if client_capabilities else None
        self._shows_files = bool(files and files.read_text_file)
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="holdfast", title="Holdfast", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[GivenServer] | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        """A session; it is on the log before the editor hears its id, so that it can always be loaded."""
        del additional_directories, kwargs
        _check_folder(cwd)
        session_id = new_session_id()
        await answer_of(self._attached.client.create_session(session_id, workspace=cwd, origin=CHAT))
        session = self._open(session_id, cwd)
        await self._connect(session, mcp_servers)
        return NewSessionResponse(
            session_id=session.session_id,
            modes=mode_state(session.mode),
            config_options=await self._options(session),
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[GivenServer] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse | None:
        """Open a session and tell all of it; what happens from then on follows."""
        del additional_directories, kwargs
        session = await self._reopen(session_id, cwd, tells=True)
        await self._connect(session, mcp_servers)
        return LoadSessionResponse(
            modes=mode_state(session.mode), config_options=await self._options(session)
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[GivenServer] | None = None,
        **kwargs: Any,
    ) -> ResumeSessionResponse:
        """Open a session whose past the editor has; what happens from now on follows."""
        del additional_directories, kwargs
        session = await self._reopen(session_id, cwd, tells=False)
        await self._connect(session, mcp_servers)
        return ResumeSessionResponse(
            modes=mode_state(session.mode), config_options=await self._options(session)
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        """The sessions of the server, the newest first."""
        del kwargs
        page = await answer_of(self._attached.client.sessions(limit=LISTED_AT_ONCE, cursor=cursor or ""))
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

    async def set_session_mode(
        self, mode_id: str, session_id: str, **kwargs: Any
    ) -> SetSessionModeResponse | None:
        """Choose how actions of the session are approved, from the next one on."""
        del kwargs
        if mode_id not in MODES:
            raise RequestError.invalid_params({"details": f"There is no mode {mode_id}."})
        await self._known(session_id).set_mode(chosen(mode_id))
        return SetSessionModeResponse()

    async def set_config_option(
        self,
        config_id: str,
        session_id: str,
        value: str | bool,  # noqa: FBT001  # as the protocol has it
        **kwargs: Any,
    ) -> SetSessionConfigOptionResponse | None:
        """Choose the mode of the session, or the model of its next runs."""
        del kwargs
        session = self._known(session_id)
        if config_id == MODE and value in MODES:
            await session.set_mode(chosen(str(value)))
        elif config_id == MODEL and value in {DEFAULT, *await self._models()}:
            session.model = chosen(str(value))
        else:
            raise RequestError.invalid_params({"details": f"There is no {config_id} {value}."})
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

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse | None:
        """Stop what the session does, and read it no more; it can be loaded again."""
        del kwargs
        session = self._known(session_id)
        await session.stop()
        await self._sessions.pop(session_id).close()
        return CloseSessionResponse()

    @property
    def _workspace(self) -> str:
        return str(self._attached.directory.settings.workspace)

    def _open(self, session_id: str, cwd: str) -> EditorSession:
        assert self._editor is not None, "the editor connected first"
        session = EditorSession(
            self._attached.client,
            self._editor,
            session_id=session_id,
            workspace=cwd,
            files=EditorFiles(self._editor, session_id) if self._shows_files else None,
        )
        session.model = self._model
        session.withdraw = self._withdraw or session.withdraw
        self._sessions[session_id] = session
        return session

    def _known(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise RequestError.invalid_params({"details": "Open the session first, with session/load."})
        return self._sessions[session_id]

    async def _reopen(self, session_id: str, cwd: str, *, tells: bool) -> EditorSession:
        found = await answer_of(self._attached.client.session(session_id))
        if session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        session = self._open(session_id, found.workspace or cwd)
        try:
            await session.open(tells=tells)
        except RequestError:
            del self._sessions[session_id]
            raise
        return session

    async def _connect(self, session: EditorSession, given: list[GivenServer] | None) -> None:
        try:
            await session.connect_servers(given or [])
        except RequestError:
            await self._sessions.pop(session.session_id).close()
            raise

    async def _models(self) -> Mapping[str, str]:
        """The models to choose from, by the name of their target."""
        targets = await answer_of(self._attached.client.targets())
        return {one.name: one.model or one.name for one in targets}

    async def _options(self, session: EditorSession) -> list[Option]:
        return options(mode=session.mode, model=session.model, models=await self._models())


def _check_folder(cwd: str) -> None:
    if not Path(cwd).is_absolute():
        raise RequestError.invalid_params({"details": "cwd must be an absolute path."})
