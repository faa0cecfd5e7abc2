"""The schedule tool: a person approves the next times, and the same call makes one trigger."""

from pathlib import Path

from agent.world import ending, process, send, tool_ends
from holdfast import events as e
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.tool import Schedule
from holdfast.features.automations.values import TRIGGER, CronTimes
from holdfast.runner.asks import ApprovalVerdict
from runner.steered_clock import SteeredClock
from stores import MemoryStore

ARGS = {
    "times": 3,
    "skills": ["reports"],
    "name": "news",
    "prompt": "What is new?",
    "cron": "0 8 * * 1-5",
    "zone": "Europe/Berlin",
}


async def triggers(store: MemoryStore) -> list[Trigger]:
    return [await trigger_state(store, row.session_id) for row in await store.logs(TRIGGER)]


async def test_an_agent_schedules_a_task_once_a_person_has_seen_its_next_times(tmp_path: Path) -> None:
    """P8: it can be allowed only once, so that nobody schedules anything unseen."""
    store, clock = MemoryStore(), SteeredClock()
    judge = ConfiguredJudge(mode="workspace", home=tmp_path)
    async with (
        ChaosServer([CallTool("schedule", ARGS)], [Say("done")]) as chaos,
        process(chaos, Schedule(store, clock), store=store, judge=judge, workspace=tmp_path) as world,
    ):
        await send(world)
        log = await world.until("s", e.ApprovalAsked)
        (asked,) = [record.event for record in log if isinstance(record.event, e.ApprovalAsked)]
        assert asked.choices == ("once", "deny")
        assert "Next:\nMon 2027-01-18 08:00:00+01:00" in asked.action.summary
        assert "Stops after 3 runs\n" in asked.action.summary
        assert "Skills: reports\n" in asked.action.summary
        assert await triggers(store) == []
        answer = ApprovalVerdict("once")
        await world.inbox.answer(asked.approval_id, answer)
        log = await world.until("s", e.RunEnded)
    assert ending(log).outcome == "completed"
    (made,) = await triggers(store)
    assert made.settings is not None
    assert made.settings.when == CronTimes(expression="0 8 * * 1-5", zone="Europe/Berlin")
    assert (made.settings.times, made.settings.skills) == (3, ("reports",))
    assert "Scheduled as trg_" in tool_ends(log)[0].result


async def test_an_unattended_run_schedules_nothing_and_wrong_times_are_explained(tmp_path: Path) -> None:
    store, clock = MemoryStore(), SteeredClock()
    judge = ConfiguredJudge(home=tmp_path)
    wrong = [ARGS | {"cron": "nonsense"}, ARGS | {"every": "5m"}, ARGS | {"zone": "Mars/Base"}]
    calls = [CallTool("schedule", ARGS), *(CallTool("schedule", args) for args in wrong)]
    async with (
        ChaosServer(calls, [Say("done")]) as chaos,
        process(chaos, Schedule(store, clock), store=store, judge=judge, workspace=tmp_path) as world,
    ):
        await send(world, unattended=True)
        log = await world.until("s", e.RunEnded)
    assert await triggers(store) == []
    ends = tool_ends(log)
    assert ends[0].ending == "no_approver"
    assert all("Invalid time" in end.result for end in ends[1:])
