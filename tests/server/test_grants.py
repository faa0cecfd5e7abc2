"""What people allowed for longer, over HTTP: shown, taken back, and never stored by half an answer."""

from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.policy.grants import describe
from holdfast.values import GrantRule
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, served, target_of
from stores import MemoryStore

TOUCH = [CallTool("touch", {"n": 1})]
DONE = [Say("done")]
RULES = "/api/approvals/rules"


def asking() -> Setting:
    return Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))


async def approved(server: Served, choice: str, **fields: str) -> str:
    """Start a run, answer what it asks, and see it through; its id."""
    run_id = await server.start(**fields)
    await server.until(run_id, "approval.request")
    status, answer = await server.post(f"/v1/runs/{run_id}/approval", {"choice": choice})
    assert status == 200, answer
    assert (await server.ended(run_id))["status"] == "completed"
    return run_id


async def is_asked(server: Served, **fields: str) -> bool:
    """Whether the same action is asked about now; if so, it is denied."""
    run_id = await server.start(**fields)
    async for frame in server.frames(run_id):
        if frame.data["event"] == "approval.request":
            await server.post(f"/v1/runs/{run_id}/approval", {"choice": "deny"})
            await server.ended(run_id)
            return True
    return False


async def test_what_was_allowed_always_is_listed_and_asked_about_again_once_it_is_taken_back() -> None:
    """P8: in the session of the answer, in others, and in forks alike."""
    async with (
        ChaosServer(*(TOUCH, DONE) * 5) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=asking()) as server,
    ):
        await approved(server, "always", session_id="s")
        _, rules = await server.get(RULES)
        (rule,) = rules["data"]
        granted = GrantRule(tool="touch")
        assert (rule["scope"], rule["rule"], rule["says"]) == ("always", {"tool": "touch"}, describe(granted))
        assert not await is_asked(server, session_id="other")
        assert (await server.post("/api/sessions/s/fork", {"session_id": "fork"}))[0] == 201
        answer = await server.call("DELETE", f"{RULES}/{rule['grant_id']}")
        assert (answer.status, answer.json) == (200, {"grant_id": rule["grant_id"], "deleted": True})
        assert (await server.get(RULES))[1]["data"] == []
        for session_id in ("s", "other", "fork"):
            assert await is_asked(server, session_id=session_id), session_id
        again = await server.call("DELETE", f"{RULES}/{rule['grant_id']}")
        assert (again.status, again.code) == (404, "rule_not_found")


async def test_what_was_allowed_in_a_session_is_listed_with_it_and_can_be_taken_back() -> None:
    """P8: by its id alone."""
    async with (
        ChaosServer(*(TOUCH, DONE) * 3) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=asking()) as server,
    ):
        await approved(server, "session", session_id="s")
        assert (await server.get(RULES))[1]["data"] == []
        _, rules = await server.get(f"{RULES}?session_id=s")
        (rule,) = rules["data"]
        assert (rule["scope"], rule["session_id"], rule["rule"]) == ("session", "s", {"tool": "touch"})
        assert not await is_asked(server, session_id="s")
        assert (await server.call("DELETE", f"{RULES}/{rule['grant_id']}")).status == 200
        assert (await server.get(f"{RULES}?session_id=s"))[1]["data"] == []
        assert await is_asked(server, session_id="s")
        unknown = await server.call("GET", f"{RULES}?session_id=nowhere")
        assert (unknown.status, unknown.code) == (404, "session_not_found")


async def test_the_rules_of_all_sessions_are_listed_in_pages_and_taken_back_by_their_ids() -> None:
    """P8: nothing that is allowed anywhere is hidden; a fork's copy ends with the rule that it is of."""
    names = ("a", "b", "c")
    async with (
        ChaosServer(*(TOUCH, DONE) * 8) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=asking()) as server,
    ):
        for name in names:
            await approved(server, "session", session_id=name)
        assert (await server.post("/api/sessions/a/fork", {"session_id": "fork"}))[0] == 201
        await approved(server, "always", session_id="z")
        found, cursor = list[tuple[str, str]](), ""
        for _ in range(5):
            _, page = await server.get(f"{RULES}?sessions=all&limit=2&cursor={cursor}")
            assert len(page["data"]) <= 2
            found += [(rule["scope"], rule.get("session_id", "")) for rule in page["data"]]
            cursor = page["next_cursor"]
            if not page["has_more"]:
                break
        sessions = [("session", name) for name in ("a", "b", "c", "fork")]
        assert found == [("always", ""), *sessions]
        _, page = await server.get(f"{RULES}?sessions=all")
        ids = {rule.get("session_id", ""): rule["grant_id"] for rule in page["data"]}
        assert ids["a"] == ids["fork"]
        await server.call("DELETE", f"{RULES}/{ids['']}")
        assert (await server.call("DELETE", f"{RULES}/{ids['a']}")).status == 200
        assert (await server.call("DELETE", "/api/sessions/b?now=true")).status == 200
        _, page = await server.get(f"{RULES}?sessions=all")
        assert [rule["session_id"] for rule in page["data"]] == ["c"]
        for name in ("a", "fork"):
            assert await is_asked(server, session_id=name), name
        wrong = await server.call("GET", f"{RULES}?sessions=some")
        assert (wrong.status, wrong.json["error"]["param"]) == (400, "sessions")


async def test_an_answer_to_all_that_one_of_them_does_not_offer_answers_none() -> None:
    """P8, P12: neither the first of them nor a rule is left behind."""
    store = MemoryStore()
    judge = AsksAbout(frozenset({"touch"}), once_only="'n': 2")
    script = [CallTool("touch", {"n": 1}), CallTool("touch", {"n": 2})]
    tool = Counted()
    async with (
        ChaosServer(script, DONE) as chaos,
        served(
            target_of(chaos, patience=PATIENT),
            setting=Setting(tools=(tool,), judge=judge, store=store),
        ) as server,
    ):
        run_id = await server.start()
        asked = 0
        async for frame in server.frames(run_id):
            asked += frame.data["event"] == "approval.request"
            if asked == len(script):
                break
        path = f"/v1/runs/{run_id}/approval"
        refused = await server.call("POST", path, body={"choice": "always", "all": True})
        assert (refused.status, refused.code) == (400, "invalid_approval_choice")
        assert "once, deny" in refused.json["error"]["message"]
        assert len((await server.get("/v1/approvals"))[1]["data"]) == len(script)
        assert (await server.get(RULES))[1]["data"] == []
        status, answer = await server.post(path, {"choice": "once", "all": True})
        assert (status, answer["resolved"]) == (200, len(script))
        await server.ended(run_id)
    assert len(tool.done) == len(script)


async def test_a_fork_of_an_earlier_seq_does_not_bring_a_revoked_rule_back() -> None:
    """P8: revoked means everywhere, including forks that are made later."""
    async with (
        ChaosServer(*(TOUCH, DONE) * 5) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=asking()) as server,
    ):
        await approved(server, "session", session_id="s")
        _, log = await server.get("/api/sessions/s/events?limit=1000")
        _, rules = await server.get(f"{RULES}?session_id=s")
        assert (await server.post("/api/sessions/s/fork", {"session_id": "before"}))[0] == 201
        assert not await is_asked(server, session_id="before")
        (rule,) = rules["data"]
        assert (await server.call("DELETE", f"{RULES}/{rule['grant_id']}")).status == 200
        body = {"session_id": "after", "at_seq": log["last_seq"]}
        assert (await server.post("/api/sessions/s/fork", body))[0] == 201
        for session_id in ("s", "before", "after"):
            assert (await server.get(f"{RULES}?session_id={session_id}"))[1]["data"] == []
            assert await is_asked(server, session_id=session_id)
