"""An editor for tests of `holdfast acp`: the protocol's own package, and a person who answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from acp import text_block
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from holdfast.chaos import ChaosServer, Script
from holdfast.cli.attach import Attached
from holdfast.client import Client
from holdfast.features.acp.agent import EditorAgent
from holdfast.features.acp.session import EditorSession
from serving import Served, Setting, served, target_of


class Editor:
    """What the agent says, and how the person in the editor answers."""

    def __init__(self, *choices: str) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self._choices = list(choices)
        self._news = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        del conn

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        del session_id, more
        self.updates.append(update)
        self._news.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **more: Any
    ) -> RequestPermissionResponse:
        del session_id, more
        self.asked.append((tool_call, options))
        if not self._choices:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self._choices.pop(0))
        return RequestPermissionResponse(outcome=chosen)

    @property
    def text(self) -> str:
        said = [one for one in self.updates if one.session_update == "agent_message_chunk"]
        return "".join(one.content.text for one in said)

    def told(self) -> list[tuple[str, str]]:
        """What came, with the states of tools; taken."""
        told, self.updates = self.updates, []
        return [(one.session_update, getattr(one, "status", None) or "") for one in told]

    async def until(self, text: str) -> None:
        while text not in self.text:
            self._news.clear()
            await self._news.wait()


@dataclass
class Desk:
    """A server, and the editors that have its one session open."""

    chaos: ChaosServer
    server: Served
    client: Client
    sessions: list[EditorSession] = field(default_factory=list[EditorSession])
    agents: list[EditorAgent] = field(default_factory=list[EditorAgent])

    def editing(self, editor: Editor) -> EditorSession:
        session = EditorSession(self.client, cast("Any", editor), session_id="s", workspace="")
        self.sessions.append(session)
        return session

    def agent(self, editor: Editor) -> EditorAgent:
        agent = EditorAgent(Attached(self.client, cast("Any", None), None, self.server.url), model="")
        agent.on_connect(cast("Any", editor))
        self.agents.append(agent)
        return agent


@asynccontextmanager
async def desk(*scripts: Script, setting: Setting | None = None) -> AsyncGenerator[Desk]:
    """A server whose model follows the scripts."""
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url) as client,
    ):
        made = Desk(chaos, server, client)
        try:
            yield made
        finally:
            for one in (*made.sessions, *made.agents):
                await one.close()


async def prompted(session: EditorSession, text: str) -> str:
    """Send a prompt; why its answer ended."""
    return (await session.prompt([text_block(text)])).stop_reason
