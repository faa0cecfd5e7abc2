"""Triggers over HTTP: made, shown, changed, run, and hidden from sessions."""

from typing import Any

from features.automations.fires import until_ended
from holdfast.chaos import ChaosServer, Say
from holdfast.features.automations.events import (
    TriggerResumed,
)
from serving import served, target_of
from stores import MemoryStore
from tables import for_each_row


async def test_a_trigger_is_made_shown_changed_run_and_deleted() -> None:
    store = MemoryStore()
    async with (
        ChaosServer([Say("done")], [Say("again")]) as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        wanted = {"name": "morning", "prompt": "news", "cron": "0 8 * * 1-5", "zone": "Europe/Berlin"}
        status, made = await server.post("/api/triggers", wanted)
        assert (status, made["state"], made["kind"], len(made["next"])) == (201, "active", "cron", 5)
        path = f"/api/triggers/{made['id']}"
        status, listed = await server.get("/api/triggers")
        assert [one["name"] for one in listed["data"]] == ["morning"]
        status, _ = await server.post(f"{path}/run", **{"Idempotency-Key": "once"})
        assert status == 202
        await server.post(f"{path}/run", **{"Idempotency-Key": "once"})
        (fire,) = await until_ended(server, made["id"])
        assert (fire["outcome"], fire["key"][:4]) == ("completed", "run/")
        _, paused = await server.post(f"{path}/pause")
        assert (paused["state"], "next" in paused) == ("paused", False)
        _, resumed = await server.post(f"{path}/resume")
        assert resumed["state"] == "active"
        ahead_ms = int(1000 * resumed["next"][0])
        await store.append(made["id"], [TriggerResumed(at_ms=ahead_ms, from_ms=ahead_ms)])
        _, held = await server.get(path)
        assert (held["held_until"], held["next"][0] > resumed["next"][0]) == (resumed["next"][0], True)
        _, reset = await server.post(f"{path}/resume")
        assert ("held_until" in reset, reset["next"]) == (False, resumed["next"])
        answer = await server.call("PATCH", path, body={"every": "2h", "prompt": "other"})
        assert (answer.json["kind"], answer.json["every"]) == ("every", "2h")
        limits = {"model": "m", "budget": {"cost_usd": 0.5}}
        chosen = (await server.call("PATCH", path, body=limits)).json
        assert (chosen["model"], chosen["budget"]["cost_usd"]) == ("m", 0.5)
        cleared = {"model": "", "workspace": "", "budget": {"cost_usd": 0}}
        shown = (await server.call("PATCH", path, body=cleared)).json
        assert {"model", "workspace"}.isdisjoint(shown)
        assert shown.get("budget", {}).get("cost_usd", 0) == 0
        sessions = await server.get("/api/sessions?all=true")
        assert [one["id"] for one in sessions[1]["data"]] == [fire["session_id"]], "a trigger is no session"
        for hidden in (f"/api/sessions/{made['id']}", f"/api/sessions/{made['id']}/events"):
            assert (await server.get(hidden))[0] == 404
        assert (await server.post("/v1/runs", {"input": "hi", "session_id": made["id"]}))[0] == 400
        assert (await server.call("DELETE", path)).status == 200
        assert (await server.get(path))[0] == 404
        assert (await server.get("/api/triggers"))[1]["data"] == []


@for_each_row(
    ("changes", "said"),
    [
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": None}, "exactly one"),
        ({"every": "2h"}, "exactly one"),
        ({"zone": "Mars/Base"}, "no time zone"),
        ({"cron": None, "at": "2001-01-01T00:00:00Z"}, "has passed"),
        ({"cron": None, "every": "soon"}, "length of time"),
        ({"tools": ["nothing"]}, "Unknown tool"),
        ({"prompt": "{{secrets}}"}, "unknown placeholder"),
        ({"skills": ["Not one"]}, "isn't the name of a skill"),
        ({"skills": ["reports"]}, "Skills are turned off"),
        ({"times": -1}, "'times' must be 0 or more"),
        ({"script": "x" * 10_001}, "up to 10000 characters"),
        ({"session_id": "trg_1"}, "automations"),
        ({"promt": "p"}, "Unknown field 'promt'. The fields are name, prompt, cron"),
        ({"budget": {"tokenz": 5}}, "unknown field 'tokenz'"),
        ({"budget": {"tokens": -1}}, "'budget.tokens' must be 0"),
        ({"workspace": "/no/such/folder"}, "isn't a folder on the server"),
        ({"model": "gpt-none"}, "Unknown target 'gpt-none'. Available targets: "),
    ],
)
async def test_a_trigger_that_cannot_work_is_refused_and_why(changes: dict[str, Any], said: str) -> None:
    """P12: also when it is changed; then it stays as it was."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        usual = {"name": "n", "prompt": "p", "cron": "* * * * *"}
        status, answer = await server.post("/api/triggers", usual | changes)
        assert status == 400
        assert said in answer["error"]["message"]
        assert (await server.get("/api/triggers"))[1]["data"] == []
        _, made = await server.post("/api/triggers", usual | {"model": target_of(chaos).name})
        if None not in changes.values() and said != "exactly one":
            refused = await server.call("PATCH", f"/api/triggers/{made['id']}", body=changes)
            assert (refused.status, said in refused.json["error"]["message"]) == (400, True)
        assert (await server.get(f"/api/triggers/{made['id']}"))[1] == made


async def test_the_next_instants_are_shown_before_a_trigger_is_saved() -> None:
    async with served() as server:
        wanted = {"cron": "30 7 * * *", "zone": "Asia/Kolkata"}
        status, preview = await server.post("/api/triggers/preview", wanted)
        assert status == 200
        assert len(preview["next"]) == 5
        assert all(" 07:30:00+05:30" in local for local in preview["local"])
        assert (await server.get("/api/triggers"))[1]["data"] == []


async def test_clients_of_hermes_agent_see_triggers_as_jobs_and_are_told_what_differs() -> None:
    async with ChaosServer([Say("done")]) as chaos, served(target_of(chaos)) as server:
        wanted = {
            "name": "news",
            "schedule": "every 2h",
            "prompt": "News?",
            "skills": ["web"],
            "repeat": 3,
            "script": "check.py",
            "deliver": "local",
        }
        status, made = await server.post("/api/jobs", wanted)
        job = made["job"]
        assert (status, job["schedule_display"], job["state"]) == (200, "every 120m", "scheduled")
        assert [why.partition(":")[0] for why in job["differs"]] == ["its script wasn't taken over"]
        assert (job["skills"], job["repeat"]) == (["web"], {"times": 3, "completed": 0})
        path = f"/api/jobs/{job['id']}"
        await server.post(f"{path}/run")
        await until_ended(server, job["id"])
        shown = (await server.get(path))[1]["job"]
        assert shown["last_status"] == "completed"
        assert (await server.post(f"{path}/pause"))[1]["job"]["enabled"] is False
        edited = await server.call("PATCH", path, body={"schedule": "0 9 * * *", "enabled": True})
        assert edited.json["job"]["schedule_display"] == "0 9 * * *"
        assert edited.json["job"]["enabled"]
        await server.post("/api/triggers", {"name": "h", "prompt": "p", "webhook": "github"})
        assert [one["id"] for one in (await server.get("/api/jobs"))[1]["jobs"]] == [job["id"]]
        assert (await server.call("DELETE", path)).json == {"ok": True}
        assert (await server.get(path))[0] == 404
        assert (await server.post("/api/jobs", {"prompt": "p", "schedule": "soon"}))[0] == 400
