"""Routes that only hermes' clients use, in the shapes of hermes-agent's API server."""

from typing import Any

from msgspec.structs import replace

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.features.plans.run import FinishGoal
from holdfast.server.options import ServerOptions
from holdfast.targets import Target
from server.toolbox import Counted
from serving import Served, Setting, served, target_of


def two_targets(chaos: ChaosServer) -> tuple[Target, Target]:
    main = target_of(chaos)
    return main, replace(main, name="openrouter-2", model="other")


def asked(chaos: ChaosServer, nth: int) -> tuple[str, str]:
    """The model and the system text of a request."""
    body: Any = chaos.seen.request(nth).body
    system = [one["content"] for one in body["messages"] if one["role"] == "system"]
    return body["model"], "".join(system)


async def test_a_session_keeps_the_model_and_the_system_prompt_that_a_client_gave_it() -> None:
    """Requests name the agent as the model, as hermes' clients do, or another target."""
    async with ChaosServer(*[[Say("ok")]] * 5) as chaos, served(*two_targets(chaos)) as server:
        body = {"id": "s", "model": "other", "system_prompt": "Be brief."}
        assert (await server.post("/api/sessions", body))[0] == 201
        await server.ended(await server.start(session_id="s", model="hermes-agent", instructions="And kind."))
        assert asked(chaos, 1) == ("other", "Be brief.\n\nAnd kind.")
        await server.ended(await server.start(session_id="s", model="main"))
        assert asked(chaos, 2) == ("other", "Be brief.")

        status, lock = await server.post("/api/sessions/s/model", {"model": "m", "provider": "main"})
        assert (status, lock["object"], lock["automatic"]) == (200, "hermes.session.model_lock", False)
        assert lock["runtime"]["model_lock"] == "accepted"
        assert lock["runtime"]["requested"] == {"provider": "main", "model": "m"}
        status, _ = await server.post("/api/sessions/s/chat", {"message": "hi"})
        assert (status, asked(chaos, 3)) == (200, ("m", "Be brief."))

        status, lock = await server.post("/api/sessions/s/model", {"model": None})
        assert (status, lock["runtime"], lock["automatic"]) == (200, {}, True)
        await server.ended(await server.start(session_id="s", model="other"))
        assert asked(chaos, 4) == ("other", "Be brief.")

        await server.post("/api/sessions", {"id": "t", "model": "hermes-agent"})
        await server.ended(await server.start(session_id="t", model="other"))
        assert asked(chaos, 5)[0] == "other"


async def test_a_provider_names_a_target_and_what_isnt_served_is_named() -> None:
    async with ChaosServer([Say("ok")]) as chaos, served(*two_targets(chaos)) as server:
        options = {"reasoning": {"enabled": True, "effort": "high"}, "service_tier": None}
        run_id = await server.start(provider="OpenRouter", model="other", model_options=options)
        await server.ended(run_id)
        sent: Any = chaos.seen.request(1).body
        assert (sent["model"], sent["reasoning_effort"]) == ("other", "high")
        for body, status, param in (
            ({"provider": "nous"}, 404, "provider"),
            ({"provider": "main", "model": "other"}, 404, "provider"),
            ({"model_options": {"fast": True}}, 400, "model_options.fast"),
            ({"model_options": {"service_tier": "priority"}}, 400, "model_options.service_tier"),
        ):
            answer = await server.call("POST", "/v1/runs", body={"input": "hi", **body})
            assert (answer.status, answer.json["error"]["param"]) == (status, param), body
        answer = await server.call("POST", "/api/sessions", body={"id": "s"})
        answer = await server.call("POST", "/api/sessions/s/model", body={"model": "unknown"})
        assert (answer.status, answer.code) == (404, "target_not_found")
        assert "openrouter-2 (other)" in answer.json["error"]["message"]


async def test_pickers_and_monitors_get_the_shapes_that_they_read() -> None:
    options = ServerOptions(model="ada")
    setting = Setting(tools=(Counted(),), options=options)
    async with ChaosServer() as chaos, served(*two_targets(chaos), setting=setting) as server:
        _, tools = await server.get("/v1/toolsets")
        assert (tools["object"], tools["platform"]) == ("list", "api_server")
        (own,) = tools["data"]
        assert {"name": "own", "enabled": True, "configured": True}.items() <= own.items()
        assert "touch" in own["tools"]
        _, models = await server.get("/api/model/options")
        assert (models["model"], models["provider"]) == ("m", "main")
        assert [(one["slug"], one["models"], one["is_current"]) for one in models["providers"]] == [
            ("main", ["m"], True),
            ("openrouter-2", ["other"], False),
        ]
        _, health = await server.get("/health/detailed")
        assert (health["gateway_state"], health["active_agents"]) == ("running", 0)
        assert health["readiness"]["status"] == "ok"
        assert {"state_db", "model", "gateway"} <= health["readiness"]["checks"].keys()
        _, capabilities = await server.get("/v1/capabilities")
        assert capabilities["features"]["jobs_api"] is capabilities["features"]["toolsets_api"] is True
        assert capabilities["model"] == "ada"
        assert capabilities["endpoints"]["session_model_lock"]["path"] == "/api/sessions/{session_id}/model"


async def goal(server: Served, action: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    return await server.post("/v1/sessions/s/goal", {"action": action, **fields})


async def test_a_goal_is_a_run_that_can_be_paused_and_resumed() -> None:
    hold = Gate()
    reached = CallTool("finish_goal", {"outcome": "blocked", "evidence": []})
    async with (
        ChaosServer([Wait(hold)], [reached], [Say("It can't be done.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(FinishGoal(),))) as server,
    ):
        assert (await server.get("/v1/sessions/s/goal"))[1]["goal"] is None
        assert (await goal(server, "resume"))[0] == (await goal(server, "pause"))[0] == 404
        status, shown = await goal(server, "set", goal="Fix the tests", max_turns=7)
        assert (status, shown["object"], shown["goal"]["status"]) == (200, "hermes.session.goal", "active")
        assert (shown["goal"]["goal"], shown["goal"]["max_turns"]) == ("Fix the tests", 7)
        await hold.reached()
        assert (await goal(server, "set", goal="Another"))[0] == 409
        status, paused = await goal(server, "pause")
        assert (status, paused["goal"]["status"]) == (200, "paused")
        await server.ended(shown["run_id"])
        status, resumed = await goal(server, "resume")
        assert (status, resumed["goal"]["max_turns"], resumed["goal"]["goal"]) == (200, 7, "Fix the tests")
        await server.ended(resumed["run_id"])
        system = asked(chaos, 2)[1]
        assert "The user's message is a goal" in system
        assert (await goal(server, "clear"))[1]["goal"] is None
