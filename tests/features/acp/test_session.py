"""A session in an editor, inside one event loop: what is sent, cancelled and asked at the wrong moment."""

import asyncio
import base64
import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from acp import RequestError, text_block
from acp.schema import (
    AcpMcpServer,
    BlobResourceContents,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    FileSystemCapabilities,
    ImageContentBlock,
    McpServerStdio,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
    ToolCallUpdate,
)

from features.acp.editor import Editor, desk, prompted
from features.mcp_client.scene import ENVIRONMENT, QUICK, raw
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, Gate, Say, Wait
from holdfast.features.acp.agent import EditorAgent
from holdfast.features.mcp_client.servers import McpServers
from holdfast.features.mcp_client.session_tools import ClientServers, McpTools
from holdfast.features.plans.run import UpdatePlan
from holdfast.interfaces.system_clock import SystemClock
from holdfast.policy.tool_names import ASK_USER
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import WriteFile
from server.toolbox import Counted
from serving import AsksAbout, Setting

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
QUESTION = [CallTool(ASK_USER, {"text": "Which?"})]


class Broken(Editor):
    """An editor that can't ask its person."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **more: Any
    ) -> RequestPermissionResponse:
        del session_id, more
        self.asked.append((tool_call, options))
        if len(self.asked) == 1:
            raise RequestError.internal_error({"details": "no window"})
        return RequestPermissionResponse.model_validate({"nonsense": 1})


class Holding(Editor):
    """An editor that has files open."""

    def __init__(self, texts: dict[str, str], *choices: str) -> None:
        super().__init__(*choices)
        self.texts = texts

    async def read_text_file(self, session_id: str, path: str, **more: Any) -> ReadTextFileResponse:
        del session_id, more
        if path not in self.texts:
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.texts[path])


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
        agent = made.agent(editor)
        session = (await agent.new_session(cwd="/")).session_id
        prompt = asyncio.create_task(agent.prompt(session, [text_block("go")]))
        await editor.until("one ")
        await agent.load_session("/", session)
        with pytest.raises(RequestError, match="reopened"):
            await prompt
        await agent.cancel(session)


async def test_a_session_nobody_has_prompted_yet_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    """P1: an id that an editor has heard is on the log, whatever happens before the first prompt."""
    async with desk([Say("Here.")]) as made:
        session = (await made.agent(Editor()).new_session(cwd=str(tmp_path))).session_id
        editor = Editor()
        later = made.agent(editor)
        await later.load_session(str(tmp_path), session)
        assert (await later.prompt(session, [text_block("go")])).stop_reason == "end_turn"
        await editor.until("Here.")
        assert (await made.client.session(session)).workspace == str(tmp_path)


async def test_an_editor_that_can_not_ask_denies() -> None:
    """P8: silence is no consent, and the run goes on."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    call = [CallTool("touch", {})]
    async with desk(call, call, [Say("Not then.")], setting=setting) as made:
        editor = Broken()
        assert await prompted(made.editing(editor), "go") == "end_turn"
        assert (len(editor.asked), tool.done, editor.text) == (2, [], "Not then.")


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


async def test_an_editors_mcp_server_is_a_tool_of_its_session_alone(tmp_path: Path) -> None:
    """P8: each call is asked about, and nothing of it is left when the editor has gone."""
    command, *args = raw().command
    given = McpServerStdio(name="raw", command=command, args=args, env=[])
    call = [CallTool("mcp__raw__echo", {"text": "hello"})]
    owned = partial(McpServers, environment=ENVIRONMENT, patience=QUICK)
    async with (
        ClientServers(lambda owner, configs: owned(configs, owner=owner), SystemClock()) as of_clients,
        desk(
            call,
            [Say("Echoed.")],
            [Say("Nothing.")],
            setting=Setting(
                judge=AsksAbout(frozenset({"mcp__raw__echo"})),
                session_tools={"mcp_client": McpTools(of_clients)},
            ),
        ) as made,
    ):
        editor = Editor("once")
        agent = made.agent(editor)
        opened = await agent.new_session(cwd=str(tmp_path), mcp_servers=[given])
        await agent.prompt(opened.session_id, [text_block("go")])
        assert len(editor.asked) == 1
        ended = [one for one in editor.updates if getattr(one, "status", "") == "completed"]
        assert "hello" in ended[-1].content[0].content.text
        other = await agent.new_session(cwd=str(tmp_path))
        await agent.prompt(other.session_id, [text_block("go")])
        offered = [json.dumps(one.body) for one in made.chaos.seen.requests]
        assert [("mcp__raw__echo" in one) for one in offered] == [True, True, False]
        with pytest.raises(RequestError, match="Invalid params"):
            await agent.new_session(
                cwd=str(tmp_path), mcp_servers=[AcpMcpServer(type="acp", name="inside", server_id="1")]
            )
        await agent.close()
        assert of_clients.tools(opened.session_id) == []


async def test_in_plan_mode_the_plan_is_shown_and_accepted_in_the_editor() -> None:
    """P8: and the mode is over when it is accepted."""
    steps = [{"text": "look", "state": "in_progress"}, {"text": "act", "state": "pending"}]
    propose = [CallTool("update_plan", {"steps": steps})]
    async with desk(propose, [Say("Done.")], setting=Setting(tools=(UpdatePlan(),))) as made:
        editor = Editor("once")
        agent = made.agent(editor)
        opened = await agent.new_session(cwd="/")
        await agent.set_session_mode("plan", opened.session_id)
        await agent.prompt(opened.session_id, [text_block("go")])
        assert len(editor.asked) == 1
        [shown] = [one for one in editor.updates if one.session_update == "plan"]
        assert [(one.content, one.status) for one in shown.entries] == [
            ("look", "in_progress"),
            ("act", "pending"),
        ]
        modes = [one for one in editor.updates if one.session_update == "current_mode_update"]
        assert [one.current_mode_id for one in modes] == ["plan", "default"]

        again = Editor()
        await made.agent(again).load_session("/", opened.session_id)
        assert ("plan", "") in again.told()


async def test_unsaved_changes_of_the_editor_reach_the_person_and_what_they_link(tmp_path: Path) -> None:
    """P8: tools work on what is saved; the editor says so before it asks, and sends what is linked."""
    (tmp_path / "notes.txt").write_text("saved")
    (tmp_path / "same.txt").write_text("same\n")
    write = CallTool("write_file", {"path": "notes.txt", "content": "new"})
    setting = Setting(
        tools=(WriteFile(FilesSeen()),),
        judge=AsksAbout(frozenset({"write_file"})),
        workspace=tmp_path,
    )
    async with desk([write], [Say("Written.")], setting=setting) as made:
        editor = Holding({str(tmp_path / "notes.txt"): "unsaved", str(tmp_path / "same.txt"): "same"}, "once")
        agent = made.agent(editor)
        shows = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        await agent.initialize(1, client_capabilities=shows)
        opened = await agent.new_session(cwd=str(tmp_path))
        links = [
            ResourceContentBlock(type="resource_link", name=name, uri=(tmp_path / name).as_uri())
            for name in ("notes.txt", "same.txt")
        ]
        await agent.prompt(opened.session_id, [text_block("go"), *links])
        sent = json.dumps(made.chaos.seen.requests[0].body)
        assert ("unsaved" in sent, sent.count("</file>")) == (True, 1)
        [(call, _)] = editor.asked
        assert call.content is not None
        assert call.content[0].type == "diff"
        assert "notes.txt has unsaved changes" in call.content[-1].content.text
        await editor.until("[notes.txt has unsaved changes")
        assert (tmp_path / "notes.txt").read_text() == "new"


async def test_the_mode_of_a_session_is_on_its_log_and_holds_for_the_next_action(tmp_path: Path) -> None:
    """P8: chosen in one editor, told to the other, and there when the session is opened again."""
    judge = ConfiguredJudge(mode="ask", home=tmp_path)
    tool = Counted()
    call = [CallTool("touch", {})]
    setting = Setting(tools=(tool,), judge=judge)
    async with desk(call, [Say("Refused.")], call, [Say("Done.")], setting=setting) as made:
        editor = Editor("once")
        agent = made.agent(editor)
        opened = await agent.new_session(cwd=str(tmp_path))
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "default"
        await agent.set_session_mode("unattended", opened.session_id)
        assert editor.told() == [("current_mode_update", "")]
        await agent.prompt(opened.session_id, [text_block("go")])
        assert (editor.asked, tool.done) == ([], [])  # it would be asked, so it is refused

        other = Editor()
        again = made.agent(other)
        loaded = await again.load_session(str(tmp_path), opened.session_id)
        assert loaded is not None
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "unattended"
        set_back = await again.set_config_option("mode", opened.session_id, "ask")
        assert set_back is not None
        assert [one.current_value for one in set_back.config_options] == ["ask", "default"]
        await again.close()  # it would be asked, too
        await agent.prompt(opened.session_id, [text_block("again")])
        assert (len(editor.asked), len(tool.done)) == (1, 1)
        with pytest.raises(RequestError):
            await agent.set_session_mode("yolo", opened.session_id)


@pytest.mark.parametrize("wanted", [0, 1, 99])
async def test_the_version_is_the_one_that_is_spoken(wanted: int) -> None:
    agent = EditorAgent(cast("Any", None), model="")
    assert (await agent.initialize(wanted)).protocol_version == 1
