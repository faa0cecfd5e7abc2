"""Sub-agents over HTTP: their tree, their place in lists, what they ask, and what becomes of them."""

from pathlib import Path
from typing import Any

from agent.world import Effect, asks_about
from features.delegation.delegating import choose
from holdfast.chaos import ChaosServer
from holdfast.features.delegation.tools import child_tools
from serving import Served, Setting, served, target_of

BACK = "/api/sessions/s/children"


async def tree_with_an_ask(server: Served) -> list[dict[str, Any]]:
    """The tree, once the deepest sub-agent asks."""
    async for frame in server.follow("/api/sessions/s/events"):
        _, answer = await server.get(BACK)
        if any(child.get("asks") for child in answer["data"]):
            return answer["data"]
        if '"type":"run.ended"' in str(frame.data):
            break
    raise AssertionError("nobody asked")


async def test_the_tree_shows_each_sub_agent_and_what_it_asks_is_answered_at_the_top(tmp_path: Path) -> None:
    """P8, P14: the same id at every place, one answer, and the tree tells how each ended."""
    acted = list[str]()
    setting = Setting(
        tools=(Effect("act", acted), *child_tools()), judge=asks_about("act"), workspace=tmp_path
    )
    async with ChaosServer(choose=choose) as chaos, served(target_of(chaos), setting=setting) as server:
        run_id = await server.start("go", session_id="s")
        first, second = await tree_with_an_ask(server)
        assert [(one["name"], one["depth"], one["status"]) for one in (first, second)] == [
            ("agent-1", 1, "waiting_for_children"),
            ("agent-1", 2, "waiting_for_approval"),
        ]
        assert second["parent_session_id"] == first["session_id"]
        assert second["task"] == "second task\nmore"
        (ask,) = second["asks"]
        _, asks = await server.get("/v1/approvals")
        (listed,) = asks["data"]
        assert listed["approval_id"] == ask["approval_id"]
        assert (listed["session_id"], listed["root_session_id"]) == (second["session_id"], "s")
        _, sessions = await server.get("/api/sessions")
        assert [(one["id"], one["open_asks"]) for one in sessions["data"]] == [("s", 1)]
        _, with_children = await server.get("/api/sessions?children=true")
        parents = {one["id"]: one.get("parent_session_id") for one in with_children["data"]}
        assert parents == {"s": None, first["session_id"]: "s", second["session_id"]: first["session_id"]}
        answer = {"choice": "once", "approval_id": ask["approval_id"]}
        status, _ = await server.post(f"/v1/runs/{ask['run_id']}/approval", answer)
        assert status == 200
        ended = await server.ended(run_id)
        _, answer = await server.get(BACK)
        _, inner = await server.get(f"/api/sessions/{second['session_id']}/children")
    assert ended["output"] == "all done"
    assert [(one["name"], one["outcome"]) for one in ended["children"]] == [("agent-1", "completed")]
    assert ended["children_usage"]["total_tokens"] == answer["data"][0]["usage"]["total_tokens"]
    assert [(one["status"], one["outcome"]) for one in answer["data"]] == [("ended", "completed")] * 2
    assert [one["last_line"] for one in answer["data"]] == ["first done", "second done"]
    assert inner["parent"]["root_session_id"] == "s"
    assert len(acted) == 1


async def test_deleting_a_session_deletes_its_sub_agents_and_undeleting_brings_them_back(
    tmp_path: Path,
) -> None:
    """P5: a deleted session's sub-agents stop, too."""
    setting = Setting(tools=(Effect("act", []), *child_tools()), workspace=tmp_path)
    async with ChaosServer(choose=choose) as chaos, served(target_of(chaos), setting=setting) as server:
        await server.ended(await server.start("go", session_id="s"))
        _, tree = await server.get(BACK)
        ids = [one["session_id"] for one in tree["data"]]
        assert (await server.call("DELETE", "/api/sessions/s")).status == 200
        gone = [(await server.get(f"/api/sessions/{id_}"))[0] for id_ in ids]
        status, _ = await server.post("/api/sessions/s/undelete")
        assert status == 200
        back = [(await server.get(f"/api/sessions/{id_}"))[0] for id_ in ids]
    assert len(ids) == 2
    assert gone == [404, 404]
    assert back == [200, 200]
