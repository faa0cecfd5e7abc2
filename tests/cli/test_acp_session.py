"""A session in an editor, inside one event loop: what is sent, cancelled and asked at the wrong moment."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from acp import RequestError, text_block
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from cli.test_acp import Editor
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, Wait
from holdfast.cli.acp.agent import EditorAgent
from holdfast.cli.acp.session import EditorSession
from holdfast.cli.attach import Attached
from holdfast.client import Client
from holdfast.policy.tool_names import ASK_USER
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
QUESTION = [CallTool(ASK_USER, {"text": "Which?"})]
PATIENCE_S = 20  # only a prompt that hangs waits for it


class Broken(Editor):
    """An editor that can't ask its person."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **more: Any
    ) -> RequestPermissionResponse:
        del session_id, more
        self.asked.append((tool_call, options))
        raise RequestError.internal_error({"details": "no window"})


@dataclass
class Desk:
    """A server, and the editors that have its one session open."""

    chaos: ChaosServer
    server: Served
    client: Client
    sessions: list[EditorSession] = field(default_factory=list[EditorSession])

    def editing(self, editor: Editor) -> EditorSession:
        session = EditorSession(self.client, cast("Any", editor), session_id="s", workspace="")
        self.sessions.append(session)
        return session


@asynccontextmanager
async def desk(*scripts: Script, setting: Setting | None = None) -> AsyncGenerator[Desk]:
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url) as client,
    ):
        made = Desk(chaos, server, client)
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield made
        finally:
            for session in made.sessions:
                await session.close()


async def prompted(session: EditorSession, text: str) -> str:
    return (await session.prompt([text_block(text)])).stop_reason


async def test_a_cancel_right_behind_a_prompt_stops_the_run_that_it_begins() -> None:
    """P5: whether the message was sent by then or not."""
    gate = Gate()
    async with desk([Say("one "), Wait(gate)], [Say("two "), Wait(gate)], [Say("three")]) as made:
        session = made.editing(Editor())
        for pauses in (1, 2, 5):
            prompt = asyncio.create_task(prompted(session, "go"))
            for _ in range(pauses):
                await asyncio.sleep(0)
            await session.stop()
            assert await prompt == "cancelled"
        runs = (await made.client.runs(session_id="s")).data
        assert {one.status for one in runs} <= {"cancelled"}


async def test_after_a_cancel_of_two_prompts_the_next_one_runs() -> None:
    """P5, P3."""
    gate = Gate()
    async with desk([Say("one "), Wait(gate)], [Say("three")]) as made:
        editor = Editor()
        session = made.editing(editor)
        first = asyncio.create_task(prompted(session, "a"))
        await editor.until("one ")
        second = asyncio.create_task(prompted(session, "b"))
        while len((await made.client.runs(session_id="s")).data) < 2:
            pass
        await session.stop()
        assert (await first, await second) == ("cancelled", "cancelled")
        assert await prompted(session, "c") == "end_turn"
        assert editor.text.endswith("three")


async def test_two_answers_to_one_question_both_come_to_an_end() -> None:
    """P3: the one that came second is refused or runs; neither hangs."""
    async with desk(QUESTION, [Say("So b.")], [Say("Well.")]) as made:
        session = made.editing(Editor())
        assert await prompted(session, "which") == "end_turn"
        done = await asyncio.gather(prompted(session, "a"), prompted(session, "b"), return_exceptions=True)
        assert "end_turn" in done
        assert all(one == "end_turn" or isinstance(one, RequestError) for one in done)


async def test_a_prompt_whose_session_is_opened_again_ends_with_a_reason() -> None:
    """P3."""
    gate = Gate()
    async with desk([Say("one "), Wait(gate)]) as made:
        editor = Editor()
        agent = EditorAgent(Attached(made.client, cast("Any", None), None, made.server.url), model="")
        agent.on_connect(cast("Any", editor))
        session = (await agent.new_session(cwd="/")).session_id
        prompt = asyncio.create_task(agent.prompt(session, [text_block("go")]))
        await editor.until("one ")
        await agent.load_session("/", session)
        with pytest.raises(RequestError, match="opened again"):
            await prompt
        await agent.cancel(session)
        await agent.close()


async def test_an_editor_that_can_not_ask_denies() -> None:
    """P8: silence is no consent, and the run goes on."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    async with desk([CallTool("touch", {})], [Say("Not then.")], setting=setting) as made:
        editor = Broken()
        assert await prompted(made.editing(editor), "go") == "end_turn"
        assert (len(editor.asked), tool.done, editor.text) == (1, [], "Not then.")


async def test_two_editors_see_the_same_and_none_its_own_message_twice() -> None:
    """P7."""
    async with desk([Say("one")], [Say("two")]) as made:
        left, right = Editor(), Editor()
        mine = made.editing(left)
        await prompted(mine, "first")
        other = made.editing(right)
        await other.open(tells=True)
        assert await prompted(other, "second") == "end_turn"
        await left.until("two")

        def said(editor: Editor) -> list[str]:
            kinds = ("user_message_chunk", "agent_message_chunk")
            return [one.content.text for one in editor.updates if one.session_update in kinds]

        assert said(left) == ["one", "second", "two"]
        assert said(right) == ["first", "one", "two"]


async def test_what_is_attached_reaches_the_model() -> None:
    """P2."""
    shown = base64.b64encode(PNG).decode()
    notes = BlobResourceContents(blob=base64.b64encode(b"a note").decode(), uri="file:///n/notes.txt")
    blocks = [
        text_block("look"),
        ImageContentBlock(type="image", data=shown, mime_type="image/png"),
        EmbeddedResourceContentBlock(type="resource", resource=notes),
    ]
    async with desk([Say("Seen.")]) as made:
        assert (await made.editing(Editor()).prompt(blocks)).stop_reason == "end_turn"
        sent = json.dumps(made.chaos.seen.requests[0].body)
    assert shown in sent
    assert "notes.txt" in sent


@pytest.mark.parametrize("wanted", [0, 1, 99])
async def test_the_version_is_the_one_that_is_spoken(wanted: int) -> None:
    agent = EditorAgent(cast("Any", None), model="")
    assert (await agent.initialize(wanted)).protocol_version == 1
