"""What a sub-agent asks, in an editor: a permission, or a question that the next prompt answers."""

from pathlib import Path

from agent.world import Effect, asks_about
from features.acp.editor import Editor, desk, prompted
from holdfast.chaos import CallTool, Say
from holdfast.features.delegation.tools import child_tools
from holdfast.policy.tool_names import ASK_USER
from serving import Setting

DELEGATES = [CallTool("delegate", {"task": "look"})]


async def test_an_editor_is_asked_for_the_permission_that_a_sub_agent_needs(tmp_path: Path) -> None:
    """P8: once, by its id, and the prompt ends with the parent's answer."""
    acted: list[str] = []
    setting = Setting(
        tools=(Effect("act", acted), *child_tools()), judge=asks_about("act"), workspace=tmp_path
    )
    scripts = (DELEGATES, [CallTool("act")], [Say("looked")], [Say("all done")])
    editor = Editor("once")
    async with desk(*scripts, setting=setting) as made:
        assert await prompted(made.editing(editor), "go") == "end_turn"
    assert len(editor.asked) == 1
    assert len(acted) == 1


async def test_the_next_prompt_answers_a_sub_agents_question(tmp_path: Path) -> None:
    """P8: the prompt ends with the question, and the answer lets the parent's run go on."""
    setting = Setting(tools=tuple(child_tools()), workspace=tmp_path)
    question = [CallTool(ASK_USER, {"text": "Which?"})]
    async with desk(DELEGATES, question, [Say("blue then")], [Say("all done")], setting=setting) as made:
        session = made.editing(Editor())
        assert await prompted(session, "go") == "end_turn"
        assert made.chaos.seen.requests_seen == 2
        assert await prompted(session, "blue") == "end_turn"
        assert made.chaos.seen.requests_seen == 4
        runs = (await made.server.get("/v1/runs"))[1]["data"]
    assert {run["status"] for run in runs} == {"completed"}
