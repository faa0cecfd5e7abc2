"""Memory over HTTP: each key has its own, and everything about it can be seen, changed and taken back."""

from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.tools.memory.tools import Remember
from serving import PATIENT, Setting, served, target_of

USER = {"scope": "user"}


async def test_a_memory_is_proposed_accepted_edited_rolled_back_and_forgotten() -> None:
    """P11, P12."""
    remember = CallTool("remember", {"about": "user", "text": "likes tea", "reason": "breakfast"})
    setting = Setting(tools=(Remember(),))
    async with (
        ChaosServer([remember], [Say("you like tea, noted")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):

        async def user() -> dict[str, Any]:
            _, listed = await server.get("/v1/memory")
            return next(one for one in listed["data"] if one["scope"] == "user")

        run_id = await server.start("I like tea", origin="page")
        shown = await server.ended(run_id)
        (proposal,) = (await user())["proposals"]
        assert (proposal["after"], proposal["origin"]["session_id"]) == ("likes tea", shown["session_id"])
        unknown = await server.call("POST", "/v1/memory/decide", body={**USER, "accept": ["chg_x"]})
        assert (unknown.status, unknown.code) == (409, "not_remembered")
        decided = {**USER, "accept": [proposal["change_id"]]}
        assert (await server.post("/v1/memory/decide", decided))[1]["document"] == "likes tea"
        long = await server.call("PUT", "/v1/memory", body={**USER, "text": "x" * 2_001})
        assert (long.status, long.code) == (409, "not_remembered")
        edited = await server.call("PUT", "/v1/memory", body={**USER, "text": "likes green tea"})
        assert edited.json["document"] == "likes green tea"
        _, history = await server.get("/v1/memory/history?scope=user")
        assert [one["how"] for one in history["data"]] == ["edited", "accepted"]
        back = {**USER, "to_seq": history["data"][1]["seq"]}
        assert (await server.post("/v1/memory/rollback", back))[1]["document"] == "likes tea"
        never = await server.call("POST", "/v1/memory/rollback", body={**USER, "to_seq": 99})
        assert (never.status, never.code) == (409, "not_remembered")
        _, gone = await server.post("/v1/memory/forget", {**USER, "text": "tea"})
        assert [one["session_id"] for one in gone["sessions"]] == [shown["session_id"]]
        assert "document" not in await user()
        # It is no conversation: no list and no route of sessions has it.
        assert len((await server.get("/api/sessions?all=true"))[1]["data"]) == 1
        assert (await server.get("/api/sessions?q=tea"))[1]["data"][0]["id"] == shown["session_id"]
        wrong = await server.call("GET", "/v1/memory/history?scope=moon")
        assert (wrong.status, wrong.json["error"]["param"]) == (400, "scope")
