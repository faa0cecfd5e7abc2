"""The figures of a server: what happened is counted once, by the names that dashboards use."""

import asyncio
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait, server_error
from holdfast.journal.memory_disk import MemoryDisk
from server.toolbox import Counted
from serving import PATIENT, Served, Setting, served, target_of
from stores import MemoryStore

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


async def figures(server: Served) -> dict[str, float]:
    """Every sample by its name and labels."""
    answer = await server.call("GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_runs_attempts_tokens_and_tools_are_counted_as_they_happen() -> None:
    gate = Gate()
    async with (
        ChaosServer(
            [server_error()], [CallTool("touch", {})], [Say("a"), Wait(gate), Say("b")], [Say("c")]
        ) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        run_id = await server.start(session_id="s")
        await gate.reached()
        await server.until(run_id, "message.delta")
        second = await server.start(session_id="s")
        now = await figures(server)
        assert (now["holdfast_runs_active"], now["holdfast_runs_queued"]) == (1, 1)
        gate.open()
        await server.ended(run_id)
        await server.ended(second)
        assert (await server.post("/api/sessions/s/fork"))[0] == 201  # copies what was counted
        then = await figures(server)
    assert then["holdfast_runs_started_total"] == 2
    assert then["holdfast_runs_ended_total outcome=completed"] == 2
    assert (then["holdfast_runs_active"], then["holdfast_runs_queued"]) == (0, 0)
    assert then["holdfast_model_attempts_total close_reason=peer target=main"] == 1
    assert then["holdfast_model_attempts_total close_reason=done target=main"] == 3
    assert then["holdfast_model_failures_total kind=server_error target=main"] == 1
    assert then["holdfast_tool_calls_total ending=finished"] == 1
    assert then["holdfast_tokens_total direction=output target=main"] == 21
    assert then["holdfast_first_token_seconds_count target=main"] == 3
    assert then["holdfast_commit_seconds_count"] > 10
    assert then["holdfast_commit_seconds_bucket le=+Inf"] == then["holdfast_commit_seconds_count"]
    assert then["process_resident_memory_bytes"] > 1_000_000
    documented = await asyncio.to_thread(DOCS.read_text, "utf-8")
    names = {name.partition(" ")[0] for name in then if name.startswith("holdfast_")}
    assert "holdfast_build_info" in names
    for name in names:
        known = re.sub("_(bucket|count|sum)$", "", name)
        assert f"`{known}`" in documented, f"docs/metrics.md does not know {name}"


async def test_runs_that_an_earlier_process_left_open_are_counted_and_a_stop_is_a_cancelled_attempt() -> None:
    disk = MemoryDisk()
    async with ChaosServer([Hang()], after_last="repeat") as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk)) as server:
            run_id = await server.start(session_id="s")
            await server.start(session_id="s")
            await chaos.seen.until_request(1)
        async with served(target, store=MemoryStore(disk)) as server:
            await chaos.seen.until_request(2)
            begun = await figures(server)
            assert (begun["holdfast_runs_active"], begun["holdfast_runs_queued"]) == (1, 1)
            assert (begun["holdfast_runs_resumed_total"], begun["holdfast_runs_started_total"]) == (1, 0)
            await server.post(f"/v1/runs/{run_id}/stop")
            await server.ended(run_id)
            after = await figures(server)
            assert after["holdfast_runs_ended_total outcome=cancelled"] == 1
            assert after["holdfast_model_attempts_total close_reason=cancel target=main"] == 1
            assert after["holdfast_open_streams"] == 0
