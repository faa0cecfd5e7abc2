"""A server's traces and metrics, as a collector gets them."""

import asyncio
import signal
from pathlib import Path

from features.telemetry.collector import Collector, attributes, collector
from holdfast.chaos import CallTool, ChaosServer, Drop, Say
from runner.program import configure, program

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SCRIPTS = ([Say("hel"), Drop()], [CallTool("shell", {"command": "echo secret-output"})], [Say("all done")])


def switch_on(folder: Path, chaos: ChaosServer, url: str, *, more: str = "") -> None:
    configure(folder, chaos.base_url, sandbox="off")
    text = (folder / "holdfast.toml").read_text()
    section = f'[telemetry]\nendpoint = "{url}"\nheaders = {{ x-team = "a-secret-of-the-team" }}\n{more}'
    (folder / "holdfast.toml").write_text(f"{text}\n{section}")


async def traced_run(
    folder: Path, chaos: ChaosServer, collecting: Collector, *refusals: int, more: str = ""
) -> str:
    """A run with a dropped attempt and a tool call, by a client that traces; the session's id."""
    await asyncio.to_thread(switch_on, folder, chaos, collecting.url, more=more)
    async with program(folder) as server:
        await collecting.until_metrics()
        collecting.refusals += refusals
        body = {"input": "words of a person", "session_id": "s-traced"}
        status, started = await server.call("POST", "/v1/runs", body, headers={"traceparent": CALLER})
        assert status == 202
        await server.events(started["run_id"])
        async with server.http.get(f"{server.url}/metrics") as answer:
            exposed = await answer.text()
        await collecting.until_span("invoke_agent")
        server.process.send_signal(signal.SIGTERM)
        await server.ended()
    shown = {line.split()[2] for line in exposed.splitlines() if line.startswith("# TYPE holdfast_")}
    assert shown <= set(collecting.metrics), "each metric is exported under the name of Prometheus"
    return started["run_id"]


async def test_a_run_is_a_trace_of_its_caller_with_calls_attempts_tools_and_commits(tmp_path: Path) -> None:
    """A collector that is busy at first gets everything later, and once. No content is sent."""
    async with ChaosServer(*SCRIPTS) as chaos, collector() as collecting:
        run_id = await traced_run(tmp_path, chaos, collecting, 503, 503)
        (root,) = collecting.named("invoke_agent")
        assert root.trace_id.hex() == CALLER.split("-")[1]
        assert root.parent_span_id.hex() == CALLER.split("-")[2]
        facts = attributes(root)
        assert facts["gen_ai.conversation.id"] == "s-traced"
        assert (facts["holdfast.run.id"], facts["holdfast.outcome"]) == (run_id, "completed")
        first, second = collecting.named("chat m")
        assert attributes(second)["gen_ai.response.finish_reasons"] == ["stop"]
        assert {first.parent_span_id, second.parent_span_id} == {root.span_id}
        dropped, *_ = collecting.named("attempt")
        assert (dropped.parent_span_id, attributes(dropped)["error.type"]) == (first.span_id, "dropped")
        assert dropped.status.code == dropped.status.STATUS_CODE_ERROR
        (tool,) = collecting.named("execute_tool shell")
        assert (tool.parent_span_id, attributes(tool)["gen_ai.tool.name"]) == (root.span_id, "shell")
        assert {one.trace_id for one in collecting.spans} == {root.trace_id}
        assert len({one.span_id for one in collecting.spans}) == len(collecting.spans)
        for span in collecting.spans:
            assert span.start_time_unix_nano <= span.end_time_unix_nano
        sent = chaos.seen.requests[-1].headers["traceparent"].split("-")
        assert (sent[1], sent[2]) == (root.trace_id.hex(), root.span_id.hex())
        assert "words of a person" not in str(collecting.spans)
        assert "secret-output" not in str(collecting.spans)
        assert collecting.headers["x-team"] == "a-secret-of-the-team"
        assert collecting.resource["service.name"] == "holdfast"
        assert collecting.metrics["holdfast_runs_ended_total"].sum.data_points[0].as_double == 1
        spread = collecting.metrics["holdfast_commit_seconds"].histogram.data_points[0]
        assert (sum(spread.bucket_counts), len(spread.bucket_counts)) == (
            spread.count,
            len(spread.explicit_bounds) + 1,
        )


async def test_content_is_exported_only_if_it_is_asked_for(tmp_path: Path) -> None:
    """P11: and with the names of the conventions."""
    async with ChaosServer(*SCRIPTS) as chaos, collector() as collecting:
        await traced_run(tmp_path, chaos, collecting, more="content = true\n")
        (root,), (tool,) = collecting.named("invoke_agent"), collecting.named("execute_tool shell")
        assert "words of a person" in attributes(root)["gen_ai.input.messages"]
        assert "all done" in attributes(collecting.named("chat m")[-1])["gen_ai.output.messages"]
        assert "echo secret-output" in attributes(tool)["gen_ai.tool.call.arguments"]
        assert "secret-output" in attributes(tool)["gen_ai.tool.call.result"]
