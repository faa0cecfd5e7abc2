"""What can be set: patience by size, caps, strict, off; and what is refused."""

import pickle
import subprocess
import sys
from collections.abc import Mapping

import httpx2
import pytest

from guard.ways import LONG_S, SOON_S, caught, chat, client, packages, responses
from holdfast import guard
from holdfast.chaos import Begin, ChaosServer, Hang, Pause, Say
from holdfast.guard import Rules

LARGE = {"model": "m", "stream": True, "input": "x" * 60_000}  # 15,000 tokens, by its bytes
STREAM = {"model": "m", "stream": True, "input": "hi"}


async def _cut(rules: Rules, body: Mapping[str, object]) -> guard.GuardError:
    guarded = client(**rules)
    async with ChaosServer([Hang()]) as chaos, guarded:
        with pytest.raises(guard.GuardError) as raised:
            await guarded.post(f"{chaos.base_url}/responses", json=body)
    return raised.value


async def test_a_large_request_gets_more_time_for_its_first_event() -> None:
    guarded = client(first_event_s=SOON_S)
    async with ChaosServer([Pause(2 * SOON_S), Say("hello")]) as chaos, guarded:
        response = await guarded.post(f"{chaos.base_url}/responses", json=LARGE)
        assert "response.completed" in response.text


async def test_strict_is_the_same_for_all_sizes() -> None:
    error = await _cut({"first_event_s": SOON_S, "strict": True}, LARGE)
    assert str(error) == "127.0.0.1: no first byte in 0.2 s (TTFB threshold: 0.2s)"


async def test_a_cap_limits_what_size_adds() -> None:
    error = await _cut({"first_event_s": 0.1, "first_event_cap_s": SOON_S}, LARGE)
    assert error.deadline is not None
    assert (error.deadline.patience_s, error.deadline.why) == (SOON_S, "cap")


async def test_with_the_first_event_watchdog_off_no_wait_is_endless() -> None:
    error = await _cut({"first_event_s": 0, "first_progress_s": SOON_S}, STREAM)
    assert isinstance(error, guard.Stalled)
    assert str(error) == "127.0.0.1: no first byte in 0.2 s, the first-event watchdog is off"


async def test_the_gap_also_bounds_first_progress() -> None:
    async with ChaosServer([Begin(), Hang()]) as chaos, packages(chaos, client(gap_s=SOON_S)) as ask:
        error = await caught(responses(ask))
        assert error.deadline is not None
        assert (error.deadline.kind, error.deadline.why) == ("first_progress", "gap")


async def test_the_same_rules_hold_for_a_transport_in_a_client_of_ones_own() -> None:
    transport = guard.GuardTransport(httpx2.AsyncHTTPTransport(verify=False), first_event_s=SOON_S)
    guarded = httpx2.AsyncClient(transport=transport, timeout=LONG_S)
    async with ChaosServer([Hang()]) as chaos, packages(chaos, guarded) as ask:
        assert isinstance(await caught(chat(ask)), guard.NoFirstEvent)


async def test_the_callers_own_trace_hook_still_hears() -> None:
    heard: list[str] = []

    async def trace(name: str, _info: object) -> None:
        heard.append(name)

    guarded = client()
    async with ChaosServer([Say("hello")]) as chaos, guarded:
        url = f"{chaos.base_url}/responses"
        await guarded.post(url, json=STREAM, extensions={"trace": trace})
    assert "connection.connect_tcp.complete" in heard
    assert "http11.receive_response_body.complete" in heard


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "45"])
def test_a_length_that_is_none_is_refused(value: object) -> None:
    rules: dict[str, object] = {"first_event_s": value}
    with pytest.raises(ValueError, match="first_event_s must be a number of seconds, or 0 for off"):
        guard.GuardTransport(**rules)  # pyright: ignore[reportArgumentType]


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="first_evnt_s"):
        guard.GuardTransport(first_evnt_s=1)  # pyright: ignore[reportCallIssue]


async def test_an_error_survives_its_way_to_another_process() -> None:
    error = await _cut({"first_event_s": SOON_S}, STREAM)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert isinstance(again, guard.NoFirstEvent)
    assert (str(again), again.failure, again.deadline) == (str(error), error.failure, error.deadline)


def test_an_error_of_somebody_else_has_no_cause_of_ours() -> None:
    error = ValueError("a")
    error.__cause__ = error
    assert guard.cause_of(error) is None
    assert guard.cause_of(None) is None


def test_the_guard_needs_no_other_http_client() -> None:
    code = (
        "import sys, holdfast.guard; print([name for name in ('aiohttp', 'uvicorn') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


async def test_a_change_of_protocol_is_not_guarded() -> None:
    stream = httpx2.ByteStream(b"frames of another protocol")
    upgraded = httpx2.MockTransport(lambda _: httpx2.Response(101, stream=stream))
    transport = guard.GuardTransport(upgraded)
    response = await transport.handle_async_request(httpx2.Request("GET", "https://example.org/socket"))
    assert response.stream is stream
    await transport.aclose()
