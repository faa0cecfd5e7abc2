"""`holdfast run` as a script uses it: what it prints where, and how it ends."""

import asyncio
import io
import json
import shlex
import signal
from pathlib import Path

import pytest

from cli.lab import Ended, command, configure, configured, executed, hang_ups, serving
from cli.tmux import HOLDFAST, terminal
from holdfast.chaos import CallTool, ChaosServer, Drop, Gate, Hang, Refuse, Say, Wait
from holdfast.chaos.serve import closed_port
from holdfast.cli.ids import resolve_id
from holdfast.cli.run import follow_run
from holdfast.cli.run_output import PlainOutput
from holdfast.client import Client
from holdfast.features.memory.client import MemoryCalls
from holdfast.features.memory.run import Remember
from holdfast.host.demo_model import last_said
from holdfast.policy.tool_names import ASK_USER
from serving import Setting, served, target_of

pytestmark = pytest.mark.long


async def test_the_answer_alone_is_printed_and_nothing_of_the_recovery(tmp_path: Path) -> None:
    """S000-12, P9: a stream that broke once leaves no trace on either output; exit code 0."""
    broken = [Say("half of"), Drop()]
    async with ChaosServer(broken, [Say("the whole\nanswer")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        options = ("--effort", "low", "--temperature", "0.3", "--max-tokens", "77")
        ended = await command(tmp_path, "run", *options, "hi", start=executed)
        assert len(chaos.seen.requests) == 2
        sent = chaos.seen.requests[0].body or {}
        assert (sent["reasoning_effort"], sent["temperature"], sent["max_tokens"]) == ("low", 0.3, 77)
    assert ended == Ended(0, "the whole\nanswer\n", "")


async def test_an_unreachable_endpoint_prints_the_trace_once_at_the_end_and_fails(tmp_path: Path) -> None:
    """S000-12, P9: nothing on the standard output, the whole trace on the other one, exit code 1."""
    with closed_port() as port:
        await asyncio.to_thread(configured, tmp_path, f"http://127.0.0.1:{port}/v1")
        ended = await command(tmp_path, "run", "hi")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("holdfast: Failed: ")
    for nth in (1, 2):
        assert ended.err.count(f"attempt {nth} (main)") == 1
    assert "more tries in" in ended.err


async def test_on_a_terminal_neither_trace_nor_live_line_is_left(tmp_path: Path) -> None:
    """S000-12: the screen holds the answer, and after a failure the trace, each once."""
    gate = Gate()
    broken = [Say("half of"), Drop()]
    async with ChaosServer(broken, [Say("the whole "), Wait(gate), Say("answer")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        run = (*HOLDFAST, "run", "hi", "--config", str(tmp_path / "holdfast.toml"))
        async with terminal(*run, folder=tmp_path) as window:
            screen = await window.until("the whole")
            assert "⋯ m is answering" in screen
            gate.open()
            screen = await window.until("exit=0")
            assert screen.strip() == "the whole answer\nexit=0"
    with closed_port() as port:
        await asyncio.to_thread(configured, tmp_path, f"http://127.0.0.1:{port}/v1")
        async with terminal(*run, folder=tmp_path) as window:
            screen = await window.until("exit=1")
            assert screen.count("attempt 2 (main)") == 1
            assert "⋯" not in screen


async def test_a_refusal_is_no_success_for_a_script(tmp_path: Path) -> None:
    """P4: what the model said is printed, the reason goes to the other output, and `&&` goes no further."""
    async with ChaosServer([Refuse("I would rather not.")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "hi")
    assert (ended.code, ended.out) == (1, "I would rather not.\n")
    assert ended.err.startswith("holdfast: Refused by the model")


async def test_what_is_piped_in_follows_the_task(tmp_path: Path) -> None:
    async with ChaosServer([Say("ok")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "summarise", typed="a long\ntext\n")
        said = last_said(chaos.seen.requests[0])
    assert ended == Ended(0, "ok\n", "")
    assert said == "summarise\n\n<stdin>\na long\ntext\n</stdin>"


async def test_the_task_is_read_from_the_standard_input_and_events_are_lines(tmp_path: Path) -> None:
    async with ChaosServer([Say("ok")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "--json", "review:", "-", typed="a diff\n")
        body = str(chaos.seen.requests[0].body)
    assert "review: a diff" in body
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert (ended.code, ended.err) == (0, "")
    assert events[0]["type"] == "run.queued"
    assert (events[-1]["type"], events[-1]["outcome"]) == ("run.ended", "completed")
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP, signal.SIGHUP]],
    ids=["SIGINT", "SIGTERM", "SIGHUP twice"],
)
async def test_an_interrupt_stops_the_run_and_the_exit_code_says_so(
    tmp_path: Path, numbers: list[signal.Signals]
) -> None:
    """P5: 130, after the run has said that it is cancelled; `timeout` in a script leaves nothing at work."""
    gate = Gate()
    async with ChaosServer([Say("half"), Wait(gate)]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        with hang_ups(signal.SIG_DFL):
            process = await executed(tmp_path, "run", "--json", "hi")
        await gate.reached()
        for number in numbers:
            process.send_signal(number)
        out, _ = await process.communicate()
    assert process.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["outcome"]) == ("run.ended", "cancelled")


async def test_one_who_reads_no_further_stops_the_run_to_its_end(tmp_path: Path) -> None:
    """P4, P5: after `holdfast run | head -1` the run has ended, and is not left for a server to stop."""
    more = [Say("more ") for _ in range(200)]
    line = f"set -o pipefail; {shlex.join(HOLDFAST)} run --json hi --config holdfast.toml | head -1"
    async with ChaosServer([*more, Hang()]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        process = await asyncio.create_subprocess_exec("bash", "-c", line, cwd=tmp_path)
        assert await process.wait() == 1
        ended = await command(tmp_path, "runs", "list", "--json")
    (run,) = json.loads(ended.out)
    assert (run["object"], run["status"]) == ("run", "cancelled")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_proposal_that_waits_is_named_with_the_command_that_accepts_it(count: int) -> None:
    calls = [
        CallTool("remember", {"about": "user", "text": f"likes {n}", "reason": "r"}) for n in range(count)
    ]
    out, err = io.StringIO(), io.StringIO()
    async with (
        ChaosServer([*calls], [Say("ok")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Remember(),))) as server,
        Client(server.url) as client,
    ):
        run_id = (await client.start("I like tea")).run_id
        assert await follow_run(client, run_id, output=PlainOutput(out, err)) == 0
        proposed = [
            one.change_id for each in (await MemoryCalls(client).list()).data for one in each.proposals
        ]
    assert out.getvalue() == "ok\n"
    if count == 1:
        assert f"memory accept {run_id}" in err.getvalue()
        assert resolve_id(run_id, proposed, kind="proposal") == proposed[0]
    else:
        assert "2 proposed memories or skills need your review" in err.getvalue()
        assert "memory show" in err.getvalue()


async def test_with_nobody_to_ask_an_approval_is_refused_and_said(tmp_path: Path) -> None:
    """P8: silence is never consent; the model hears why, and so does whoever reads the output."""
    calls = [CallTool("shell", {"command": f"touch {name}"}) for name in ("made", "more")]
    calls.append(CallTool(ASK_USER, {"text": "Which?"}))
    async with ChaosServer(calls, [Say("so be it")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "make it")
        told = str(chaos.seen.requests[-1].body)
    assert (ended.code, ended.out) == (3, "so be it\n")
    assert "denied, because no one can approve it: touch made" in ended.err
    assert "Creates made." in ended.err
    assert 'allow = "shell", argv = ["touch","made"], exact = true' in ended.err
    assert ended.err.count("--mode workspace") == 1, "the advice is given once"
    assert 'argv = ["touch","more"]' in ended.err
    assert "no one can answer: Which?" in ended.err
    assert told.count("no_approver") >= 2
    assert not await asyncio.to_thread((tmp_path / "made").exists)


async def test_a_plan_that_nobody_can_accept_is_printed(tmp_path: Path) -> None:
    """P8, P9: no rule can accept one, so the advice is another."""
    plan = CallTool("update_plan", {"steps": [{"text": "write the file"}]})
    async with ChaosServer([plan], [Say("that is my plan")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "--mode", "plan", "make it")
    assert (ended.code, ended.out) == (3, "that is my plan\n")
    assert "no one can accept this plan:\n[ ] write the file\n" in ended.err
    assert "holdfast chat --session last" in ended.err
    assert "[[approvals.rules]]" not in ended.err


async def test_a_run_whose_action_the_unattended_mode_refuses_says_so_and_ends_with_a_code_of_its_own(
    tmp_path: Path,
) -> None:
    """P8: a script can tell a task that was done from one that nobody allowed."""
    call = [CallTool("shell", {"command": "touch made"})]
    async with ChaosServer(call, [Say("not done")]) as chaos:
        await asyncio.to_thread(
            configured, tmp_path, chaos.base_url, more='[approvals]\nmode = "unattended"\n'
        )
        ended = await command(tmp_path, "run", "make it")
    assert (ended.code, ended.out) == (3, "not done\n")
    assert "denied, because no one can approve it: shell touch made" in ended.err
    assert "[[approvals.rules]]" in ended.err


async def test_a_run_whose_actions_all_ran_or_only_asked_a_question_ends_with_zero(tmp_path: Path) -> None:
    calls = [CallTool("shell", {"command": "ls"}), CallTool(ASK_USER, {"text": "Which?"})]
    async with ChaosServer(calls, [Say("so be it")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        ended = await command(tmp_path, "run", "look")
    assert ended.code == 0


async def test_on_a_terminal_an_approval_is_asked_in_place(tmp_path: Path) -> None:
    """P8: Enter alone answers nothing, one key does, and the run goes on."""
    async with ChaosServer([CallTool("shell", {"command": "touch made"})], [Say("all done")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        run = (*HOLDFAST, "run", "make it", "--config", str(tmp_path / "holdfast.toml"))
        async with terminal(*run, folder=tmp_path) as window:
            await window.until("y, n, a number")
            await window.keys("Enter")
            await window.until("Press y or n or a number")
            await window.until("↑ ↓ and Enter")
            await window.keys("1")
            screen = await window.until("exit=0")
            assert "all done" in screen
            assert "✓ shell touch made" in screen
            assert "⋯" not in screen


async def test_runs_are_stopped_tried_again_and_approved_through_the_server_that_runs(
    tmp_path: Path,
) -> None:
    """P8: an approval is answered by its id, and by a word that says something."""
    gate = Gate()
    ask = CallTool("shell", {"command": "touch made"})
    async with ChaosServer([ask], [Say("never"), Wait(gate)], [Say("again")]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos)
        async with serving(tmp_path) as server:
            run_id = (await server.call("POST", "/v1/runs", {"input": "make it"}))["run_id"]
            approval_id = (await server.until(run_id, "approval.asked"))["approval_id"]
            unclear, listed = await asyncio.gather(
                command(tmp_path, "approvals", "answer", approval_id, "perhaps"),
                command(tmp_path, "approvals", "list"),
            )
            assert (unclear.code, unclear.out) == (1, "")
            assert approval_id in listed.out
            assert "touch made" in listed.out
            answered = await command(tmp_path, "approvals", "answer", approval_id, "deny")
            assert answered == Ended(0, "Answered.\n", "")
            made = await command(tmp_path, "keys", "add", "laptop")
            assert made.out.startswith("hf-")
            assert (await command(tmp_path, "keys", "revoke", "laptop")).out == "Revoked.\n"
            await gate.reached()
            assert (await command(tmp_path, "runs", "stop", run_id)).out == f"{run_id} cancelled\n"
            again = await command(tmp_path, "runs", "stop", run_id)
            assert again == Ended(0, f"{run_id} cancelled (already ended)\n", "")
            assert await command(tmp_path, "runs", "retry", run_id) == Ended(0, "again\n", "")


async def test_without_a_server_the_commands_work_on_the_store_alone(tmp_path: Path) -> None:
    """P12: what is unknown gets a clear line and exit code 1."""
    async with ChaosServer([Say("the walrus")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url)
        nothing = await command(tmp_path, "sessions", "list", "--json")
        assert nothing == Ended(0, "[]\n", f"holdfast: there is no data in {tmp_path}/data yet\n")
        assert (await command(tmp_path, "run", "find it")).code == 0
    assert (await command(tmp_path, "sessions", "search", "zebra")).out == "No matches.\n"
    found = await command(tmp_path, "sessions", "search", "the", "walrus")
    session_id = next(word for word in found.out.split() if word.startswith("ses_"))
    shown, deleted = (
        await command(tmp_path, "sessions", "show", session_id),
        await command(tmp_path, "sessions", "delete", session_id[:10], "--now"),
    )
    assert shown == Ended(0, "> find it\n\nthe walrus\n", "")
    assert deleted == Ended(0, "Deleted.\n", "")
    gone = await command(tmp_path, "sessions", "show", session_id)
    assert gone == Ended(1, "", f"holdfast: Session not found: {session_id}\n")
