"""`holdfast acp` with the protocol's own package as the editor."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, text_block
from acp.core import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
)

from cli.lab import Start, configured, executed, started
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Status, Step, Wait
from holdfast.chaos.record import SeenRequest

if TYPE_CHECKING:
    from acp.interfaces import Client
from features.acp.editor import Editor

STREAM_BYTES_MAX = 1 << 24


@asynccontextmanager
async def connected(
    folder: Path, editor: Editor, *, start: Start = started
) -> AsyncGenerator[tuple[ClientSideConnection, Any]]:
    """An agent as an editor starts it; it leaves when the editor hangs up."""
    process = await start(folder, "acp")
    assert process.stdout is not None
    process.stdout._limit = STREAM_BYTES_MAX  # type: ignore[attr-defined] # noqa: SLF001
    connection = connect_to_agent(
        cast("Client", editor), process.stdin, process.stdout, use_unstable_protocol=True
    )
    try:
        found = await connection.initialize(PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
        assert (found.protocol_version, found.agent_info and found.agent_info.name) == (1, "holdfast")
        yield connection, process
    finally:
        await connection.close()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


def by_message(**answers: list[Sequence[Step]]) -> Callable[[SeenRequest], Sequence[Step]]:
    """The scripts of an answer by the last message, one after the other; a title for the session else."""

    def chosen(request: SeenRequest) -> Sequence[Step]:
        body: Any = request.body
        said = next(one["content"] for one in reversed(body["messages"]) if one["role"] == "user")
        scripts = answers.get(said.split()[-1], [])  # messages in a row are sent as one
        return scripts.pop(0) if scripts else [Say("A title")]

    return chosen


async def test_an_editor_talks_approves_answers_and_cancels(tmp_path: Path) -> None:
    """P8, P5."""
    gate = Gate()
    remove = [[CallTool("shell", {"command": "rm -r build"})], [Say("Removed.")]] * 2
    which = [[CallTool("ask_user", {"text": "Which one?", "choices": ["a", "b"]})], [Say("So b.")]]
    slow = [Say("one "), Wait(gate)]
    wrong = [Status(400, message="no such thing")]
    hello: list[Sequence[Step]] = [[Say("Hello.")]]
    answers = by_message(hi=hello, remove=[*remove], which=[*which], slow=[slow], wrong=[wrong])
    (tmp_path / "build").mkdir()
    editor = Editor("once", "deny")
    async with ChaosServer(choose=answers) as chaos:
        configured(tmp_path, chaos.base_url)
        async with connected(tmp_path, editor, start=executed) as (agent, process):
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id

            async def prompt(text: str) -> str:
                answer = await agent.prompt(session_id=session, prompt=[text_block(text)])
                return answer.stop_reason

            assert (await prompt("hi"), editor.text) == ("end_turn", "Hello.")
            editor.told()
            assert await prompt("remove") == "end_turn"
            [(call, options)] = editor.asked
            assert call.title == "Deletes build"
            assert options[0].option_id == "once"
            assert not (tmp_path / "build").exists()
            told = editor.told()
            assert told[0] == ("tool_call", "pending")
            assert ("tool_call_update", "completed") in told
            assert await prompt("remove") == "end_turn"
            assert ("tool_call_update", "failed") in editor.told()  # it was denied

            assert await prompt("which") == "end_turn"
            assert "Which one?\n- a\n- b" in editor.text
            editor.told()
            assert (await prompt("b"), editor.text) == ("end_turn", "So b.")
            with pytest.raises(RequestError, match="no such thing"):
                await prompt("wrong")

            running = asyncio.create_task(prompt("slow"))
            await editor.until("one ")
            await agent.cancel(session_id=session)
            assert await running == "cancelled"
        assert process.returncode == 0


@pytest.mark.long
async def test_an_editor_that_comes_back_after_a_crash_reads_the_log_and_what_follows(tmp_path: Path) -> None:
    """P6, P7: kill -9 in the middle of an answer."""
    gate = Gate()
    answers = by_message(count=[[Say("one "), Wait(gate)], [Say("one two three")]])
    async with ChaosServer(choose=answers) as chaos:
        configured(tmp_path, chaos.base_url)
        editor = Editor()
        async with connected(tmp_path, editor) as (agent, process):
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            running = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("count")]))
            await editor.until("one ")
            process.send_signal(signal.SIGKILL)
            await process.wait()
            running.cancel()
            await asyncio.wait({running})
        gate.open()
        again = Editor()
        async with connected(tmp_path, again) as (agent, process):
            listed = await agent.list_sessions(cwd=str(tmp_path))
            assert [one.session_id for one in listed.sessions] == [session]
            await agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            await again.until("three")
            assert again.updates[0].session_update == "user_message_chunk"
            assert again.updates[0].content.text == "count"
            assert again.text.endswith("two three")
            resumed = Editor()
            with pytest.raises(RequestError):
                await agent.load_session(cwd=str(tmp_path), session_id="none", mcp_servers=[])
        async with connected(tmp_path, resumed) as (agent, _):
            await agent.resume_session(cwd=str(tmp_path), session_id=session)
            assert resumed.updates == []
