"""Scripts as text, the named scenarios, and the ways to serve them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import cast

import pytest

from chaos.raw_client import connected
from holdfast.chaos import (
    SCENARIOS,
    BadScript,
    CallTool,
    ChaosOptions,
    ChaosServer,
    Drip,
    Finish,
    Gate,
    Hang,
    KeepAlive,
    Say,
    SayWords,
    ScenarioSource,
    Status,
    Wait,
    chaos_in_thread,
    parse_attempts,
    rate_limited_s,
    serve_chaos,
)
from holdfast.chaos.__main__ import serve_until_stopped


def test_steps_and_attempts_read_as_they_are_written() -> None:
    text = """
    # the first attempt stalls
    say hel; hang
    say-words "one  two; three" pace_s=0.5 | finish length times=2; drip 3 pace_s=0.1
    call-tool search '{"query": "x"}' id=c1; keep-alive pace_s=1; rate-limited-s 2; status 418 body=tea
    """
    assert parse_attempts(text) == [
        [Say("hel"), Hang()],
        [SayWords("one  two; three", pace_s=0.5)],
        [Finish("length", times=2), Drip(3, pace_s=0.1)],
        [
            CallTool("search", {"query": "x"}, id="c1"),
            KeepAlive(pace_s=1.0),
            rate_limited_s(2),
            Status(418, body="tea"),
        ],
    ]


def test_what_is_said_needs_no_quotes() -> None:
    assert parse_attempts("say Hello, you = me? chunk_chars=2") == [[Say("Hello, you = me?", chunk_chars=2)]]


COMPLAINTS = {
    "say a; hagn": "attempt 1, step 2: 'hagn' is not a step; did you mean 'hang'?",
    "say a | xyzzy": "attempt 2, step 1: 'xyzzy' is not a step; there are: bad-key",
    "hang now": "attempt 1, step 1: 'hang' does not understand 'now'; it takes no arguments",
    "pause soon": "attempt 1, step 1: 'pause' cannot take 'soon' as pause_s",
    "finish stopp": "attempt 1, step 1: 'finish' cannot take 'stopp' as reason",
    "call-tool t {": "attempt 1, step 1: 'call-tool' cannot take '{' as args",
    "pause": "attempt 1, step 1: 'pause' needs pause_s",
    "say 'a": "a quote is not closed in: say 'a",
    "say a | ": "attempt 2 has no step",
    "# nothing": "the script has no step",
    "|".join(["hang"] * 1_001): "at most 1000 are taken",
    ";".join(["begin"] * 1_001): "at most 1000 are taken",
}


def test_a_bad_script_says_what_is_wrong() -> None:
    for text, complaint in COMPLAINTS.items():
        with pytest.raises(BadScript) as caught:
            parse_attempts(text)
        assert complaint in str(caught.value)


def test_every_scenario_is_a_script() -> None:
    assert [name for name in SCENARIOS if not parse_attempts(SCENARIOS[name])] == []


async def answer_for(chaos: ChaosServer, model: str, **headers: str) -> tuple[int, str]:
    async with connected(chaos) as client:
        payload = json.dumps({"model": model, "stream": True}).encode()
        await client.send_head("anthropic", len(payload), **headers)
        client.writer.write(payload)
        return await client.read_head(), (await client.read_body()).decode()


async def test_scenarios_are_chosen_by_model_or_header() -> None:
    async with ChaosServer(source=ScenarioSource()) as chaos:
        assert "well today" in (await answer_for(chaos, "chaos/ok"))[1]
        assert (await answer_for(chaos, "chaos/rate-limit"))[0] == 429
        assert "42" in (await answer_for(chaos, "chaos/rate-limit"))[1]
        assert (await answer_for(chaos, "chaos/rate-limit"))[0] == 429
        status, body = await answer_for(chaos, "chaos/stal")
        assert status == 404
        assert "did you mean 'stall'?" in body
        assert "Hi there" in (await answer_for(chaos, "any", x_chaos="say Hi there"))[1]
        assert (await answer_for(chaos, "any", x_chaos="chaos/quota"))[0] == 429
        status, body = await answer_for(chaos, "any", x_chaos="hagn")
        assert status == 400
        assert "did you mean 'hang'?" in body


async def test_a_default_script_answers_every_model() -> None:
    async with ChaosServer(source=ScenarioSource("say one | say two")) as chaos:
        answers = [(await answer_for(chaos, "any"))[1] for _ in range(3)]
    assert ["one" in answer for answer in answers] == [True, False, True]


async def test_scripts_from_headers_are_not_kept_without_end() -> None:
    source = ScenarioSource()
    async with ChaosServer(source=source) as chaos, connected(chaos) as client:
        for number in range(300):
            await client.send_head("chat", 2, x_chaos=f"status {200 + number}")
            client.writer.write(b"{}")
            await client.answer()
        await client.send_head("chat", 2, x_chaos="say again")
        client.writer.write(b"{}")
        assert await client.read_head() == 200


async def test_serving_until_cancelled() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.get_running_loop().create_task(serve_chaos(port=0, on_ready=ready.set_result))
    port = int((await ready).split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert b"chaos/stall" in await reader.read()
    writer.close()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_a_bad_script_is_refused_before_serving() -> None:
    with pytest.raises(BadScript):
        await serve_chaos(port=0, script="hagn")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def threaded(gate: Gate) -> Iterator[ChaosServer]:
    with chaos_in_thread(ChaosServer([Say("a"), Wait(gate)])) as chaos:
        yield chaos


async def test_a_server_in_a_thread_of_its_own_is_steered_from_here(
    gate: Gate, threaded: ChaosServer
) -> None:
    async with connected(threaded) as client:
        await client.post("chat")
        await gate.reached()
        assert (await threaded.seen.until_request(1)).model == "m"
        gate.open()
        assert b"[DONE]" in await client.answer()
        await threaded.seen.until_ended(1)


def test_what_fails_in_the_thread_is_raised_here() -> None:
    with chaos_in_thread(ChaosServer()) as chaos:
        second = chaos_in_thread(ChaosServer(options=ChaosOptions(port=chaos.port)))
        with pytest.raises(OSError, match="in use"):
            second.__enter__()


async def test_a_server_in_another_process_can_be_killed() -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.chaos", "0", "say", "hel;", "hang"), stdout=asyncio.subprocess.PIPE
    )
    stdout = cast("asyncio.StreamReader", child.stdout)
    port = int((await stdout.readline()).decode().split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\n\r\n" + b'{"stream":true}')
    assert b"hel" in await reader.readuntil(b"hel")
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL
    writer.transport.abort()


def test_a_bad_script_is_wrong_usage_for_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as the documents say for every command; nothing listens."""
    assert serve_until_stopped("127.0.0.1", 0, script="say a; hagn") == 2
    assert "--script: attempt 1, step 2: 'hagn'" in capsys.readouterr().err
