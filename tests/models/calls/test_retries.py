"""Retry, fallback and what the user hears of them: nothing if it works, everything if it does not."""

import datetime as dt
import logging

import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import (
    ChaosServer,
    CutCall,
    Drop,
    Gate,
    Hang,
    Say,
    Status,
    Step,
    Wait,
    bad_key,
    closed_port,
    context_overflow,
    insufficient_quota,
    overloaded,
    overloaded_s,
    rate_limited,
    rate_limited_ms,
    rate_limited_reset,
    rate_limited_s,
    rate_limited_until,
    server_error,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import AssistantMessage, ModelRequest, SaidText, UserMessage
from holdfast.targets import RetryLimits, Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import MANY, START_MS, line_of, line_to, request_of, target_of

GOOD = [Say("hello")]
IN_30_S = dt.datetime.fromtimestamp(START_MS / 1000 + 30, dt.UTC)


@for_each_row(
    ("answer", "wait_s"),
    [
        (rate_limited_s(7), 7),
        (rate_limited_until(IN_30_S), 30),
        (rate_limited_ms(250), 0.25),
        (rate_limited_reset("2s", "3s"), 3),
        (overloaded_s(9), 9),
    ],
    ids=["seconds", "date", "ms", "reset headers", "503"],
)
@on_each_wire
async def test_a_time_that_the_server_names_is_kept_to(wire: Wire, answer: Status, wait_s: float) -> None:
    """Scenario 10."""
    async with line_of(wire, [answer], GOOD) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert sum(line.clock.slept_s) == pytest.approx(wait_s, abs=0.01)
        assert server.seen.requests_seen == 2


@on_each_wire
async def test_a_bare_429_is_asked_again_after_a_backoff(wire: Wire) -> None:
    """Scenario 10: full jitter over a bound that doubles; the tests' dice always show one half."""
    async with line_of(wire, [rate_limited()], [rate_limited()], GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["rate_limited", "rate_limited"]
        assert line.clock.slept_s == [0.5, 1.0]


@on_each_wire
async def test_a_used_up_quota_is_never_retried(wire: Wire) -> None:
    """Scenario 10."""
    async with line_of(wire, [insufficient_quota()]) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "quota_exhausted"
        assert server.seen.requests_seen == 1
        assert line.clock.slept_s == []


@on_each_wire
async def test_the_budget_of_a_call_is_never_exceeded(wire: Wire) -> None:
    """P3: five attempts in all, three for each target."""
    async with ChaosServer([overloaded()], after_last="repeat") as server:
        first, second = (target_of(server, wire, name) for name in ("first", "second"))
        async with line_to(first) as line:
            assert isinstance(await line.ask(), NoAnswer)
            assert server.seen.requests_seen == 3
        async with line_to(first, second) as line:
            assert isinstance(await line.ask(), NoAnswer)
            assert server.seen.requests_seen == 3 + 5


FAULTS: list[list[Step]] = [[Drop()], [server_error(500)], [rate_limited_s(1)], [Say("hel"), Drop()]]


async def test_success_after_four_faults_leaves_no_durable_chatter(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario 13, S000-9, S000-11, P9: the log file has every line, the user none."""
    caplog.set_level(logging.INFO, "holdfast")
    async with line_of(wire, *FAULTS, GOOD, retry=MANY) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert line.told.kinds == ["dropped", "server_error", "rate_limited", "dropped"]
        assert line.told.notices == []
        assert [type(entry).__name__ for entry in line.told.seen.entries] == ["Person", "Text"]
        assert line.told.text == "hello"
        for number in range(1, 5):
            assert f"attempt {number} (main): " in caplog.text


async def test_exhaustion_gives_the_whole_trace_once_and_says_how_often_and_how_long(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenario 13, S000-9, S000-11, P9."""
    caplog.set_level(logging.INFO, "holdfast")
    async with line_of(wire, *FAULTS, [overloaded()], retry=MANY) as (line, _):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert [text.partition(":")[0] for text in ended.trace] == [
            f"attempt {number} (main)" for number in range(1, 6)
        ]
        assert "retried after 1.0 s" in ended.trace[1]
        assert ended.trace[4].endswith("gave up: main was overloaded; all 5 attempts of the call are used up")
        assert ended.failure.kind == "overloaded"
        assert ended.failure.text.endswith(
            "try again in a few minutes, or add a fallback target (gave up after 5 tries in 6.5 s)"
        )
        assert line.told.notices == [], "the trace is in the value, and nowhere else"
        assert all(text in caplog.text for text in ended.trace)


@on_each_wire
async def test_what_cannot_help_is_tried_once_and_says_what_to_do(wire: Wire) -> None:
    """P9."""
    async with line_of(wire, [bad_key()]) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "auth"
        assert "check the API key of target main" in ended.failure.text
        assert ended.failure.text.endswith("(tried once)")
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_a_switch_is_told_exactly_once_and_only_when_the_other_is_heard(wire: Wire) -> None:
    """Scenario 13, S000-9, P9."""
    async with ChaosServer([overloaded()], [overloaded()]) as bad, ChaosServer([Drop()], GOOD) as good:
        first, second = target_of(bad, wire, "first"), target_of(good, wire, "second")
        async with line_to(first, second) as line:
            assert isinstance(await line.ask(), Answer)
            (switched,) = line.told.of(e.TargetSwitched)
            assert (switched.from_target, switched.to_target) == ("first", "second")
            assert switched.why == "first was overloaded"
            assert line.told.notices == ["switched"]
            assert line.told.text == "hello"
            kinds = [type(event) for event in line.told.events]
            assert kinds.index(e.TargetSwitched) == kinds.index(e.TextDelta) - 1


@on_each_wire
async def test_no_switch_is_told_when_nobody_answers(wire: Wire) -> None:
    """Scenario 13: the trace tells of both targets."""
    async with ChaosServer([server_error()], after_last="repeat") as server:
        first, second = (target_of(server, wire, name) for name in ("first", "second"))
        async with line_to(first, second) as line:
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            assert line.told.of(e.TargetSwitched) == []
            assert "on first and second" in ended.failure.text
            assert "fallback" not in ended.failure.text, "there is one, and it failed too"


@on_each_wire
async def test_a_rejected_key_is_reported_even_if_the_fallback_is_unreachable(wire: Wire) -> None:
    """P9: the error names the failure that only a person can fix."""
    async with ChaosServer([bad_key()]) as bad:
        first = target_of(bad, wire, "first")
        with closed_port() as port:
            second = replace(first, name="second", base_url=f"http://127.0.0.1:{port}/v1")
            async with line_to(first, second) as line:
                ended = await line.ask()
    assert isinstance(ended, NoAnswer)
    assert ended.failure.kind == "auth"
    assert "check the API key of target first (gave up after" in ended.failure.text
    assert "on first and second" in ended.failure.text


@on_each_wire
async def test_a_target_that_refuses_its_key_is_followed_by_the_next(wire: Wire) -> None:
    """S000-9: a fallback answers, and the failure is no message."""
    async with ChaosServer([bad_key()]) as bad, ChaosServer(GOOD) as good:
        first, second = target_of(bad, wire, "first"), target_of(good, wire, "second")
        async with line_to(first, second) as line:
            assert isinstance(await line.ask(), Answer)
            assert line.told.notices == ["switched"]
            assert bad.seen.requests_seen == good.seen.requests_seen == 1


@for_each_row("wish", ["second", "second-model"])
@on_each_wire
async def test_the_target_that_the_caller_names_is_asked_first_and_the_others_stay_its_fallbacks(
    wire: Wire, wish: str
) -> None:
    async with ChaosServer(GOOD) as first_server, ChaosServer(GOOD, [bad_key()]) as second_server:
        first, second = target_of(first_server, wire, "first"), target_of(second_server, wire, "second")
        async with line_to(first, second) as line:
            assert isinstance(await line.ask(request_of(model=wish)), Answer)
            assert line.told.of(e.TargetSwitched) == []
            assert (first_server.seen.requests_seen, second_server.seen.requests_seen) == (0, 1)
            sink = line.another_voice()
            assert isinstance(await line.ask(request_of(model=wish), sink=sink), Answer)
            (switched,) = sink.of(e.TargetSwitched)
            assert (switched.from_target, switched.to_target) == ("second", "first")


@on_each_wire
async def test_a_model_that_no_target_has_is_no_reason_to_refuse(wire: Wire) -> None:
    async with ChaosServer(GOOD) as server, line_to(target_of(server, wire)) as line:
        assert isinstance(await line.ask(request_of(model="gpt-of-another-world")), Answer)


def long_conversation(tokens: int) -> ModelRequest:
    text = "word " * (tokens * 4 // 5 // 10)
    turns = [
        message
        for n in range(5)
        for message in (UserMessage(f"{n} {text}"), AssistantMessage((SaidText(f"{n} {text}"),)))
    ]
    return ModelRequest(messages=(*turns, UserMessage("and now?")))


@for_each_row("fault", [[Drop()], [Say("hel"), Drop()]], ids=["at once", "in the middle"])
@on_each_wire
async def test_a_reset_at_90_percent_of_the_context_is_retried_with_the_history_untouched(
    wire: Wire, fault: list[Step]
) -> None:
    """Scenario 14: a drop is never read as an overflow."""
    compactions: list[int] = []

    async def compact() -> ModelRequest | None:
        compactions.append(1)
        return None

    async with line_of(wire, fault, GOOD, context_window=100_000) as (line, server):
        request = long_conversation(90_000)
        assert isinstance(await line.ask(request, compact=compact), Answer)
        assert line.told.kinds == ["dropped"]
        assert compactions == []
        first, second = server.seen.requests
        assert first.body == second.body
        assert first.upload_bytes > 300_000


@on_each_wire
async def test_an_overflow_is_compacted_once_and_its_success_is_quiet(wire: Wire) -> None:
    """S000-9: compaction helps, and leaves no chatter."""

    async def compact() -> ModelRequest:
        return request_of("short")

    async with line_of(wire, [context_overflow()], GOOD) as (line, server):
        assert isinstance(await line.ask(compact=compact), Answer)
        assert line.told.kinds == ["overflow_input"]
        assert line.told.notices == []
        assert "short" in str(server.seen.request(2).body)


@on_each_wire
async def test_an_overflow_that_cannot_be_compacted_is_not_asked_again(wire: Wire) -> None:
    """P9: the same request would get the same answer."""

    async def compact() -> None:
        return None

    async with line_of(wire, [context_overflow()], GOOD) as (line, server):
        ended = await line.ask(compact=compact)
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "overflow_input"
        assert ended.trace[0].endswith("gave up: main can't fit the conversation")
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_a_request_that_is_surely_over_the_window_is_not_sent(wire: Wire) -> None:
    """P9: our own count is enough to know."""
    async with line_of(wire, GOOD, context_window=10_000) as (line, server):
        ended = await line.ask(long_conversation(90_000))
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "overflow_input"
        assert server.seen.requests_seen == 0
        assert line.told.of(e.AttemptStarted) == []


@on_each_wire
async def test_a_cap_that_leaves_no_room_is_lowered(wire: Wire) -> None:
    """S000-9."""
    message = (
        "max_tokens is too large: 9000. This model's maximum context length is 8192 tokens and your "
        "request has 4096 input tokens (9000 > 8192 - 4096)."
    )
    async with line_of(wire, [Status(400, message=message)], GOOD) as (line, server):
        assert isinstance(await line.ask(request_of(max_output_tokens=9000)), Answer)
        assert line.told.kinds == ["overflow_output"]
        caps = [
            next(
                value
                for key, value in (request.body or {}).items()
                if key in {"max_tokens", "max_output_tokens", "max_completion_tokens"}
            )
            for request in server.seen.requests
        ]
        assert caps[0] == 9000
        assert isinstance(caps[1], int)
        assert caps[1] <= 4500


async def test_a_cap_that_nobody_asked_for_is_lowered_too() -> None:
    """S000-9: the anthropic wire must send one."""
    status = Status(400, message="max_tokens: too large for this model")
    async with line_of("anthropic", [status], GOOD) as (line, server):
        assert isinstance(await line.ask(), Answer)
        caps = [(request.body or {})["max_tokens"] for request in server.seen.requests]
        assert caps == [32_000, 8_192]


@for_each_row(("budget", "sent"), [("9000", 9000), ("16000", None)])
async def test_a_budget_for_thinking_does_not_go_on_top_of_a_lowered_cap(
    budget: str, sent: int | None
) -> None:
    """S000-9: thinking that does not fit is left out, so that there is room for an answer."""
    status = Status(
        400, message="input length and `max_tokens` exceed context limit: 190000 + 52000 > 200000"
    )
    async with line_of("anthropic", [status], GOOD) as (line, server):
        assert isinstance(await line.ask(request_of(reasoning_effort=budget)), Answer)
        body = server.seen.request(2).body or {}
        assert body["max_tokens"] == 10_000
        assert body.get("thinking") == (sent and {"type": "enabled", "budget_tokens": sent})


@on_each_wire
async def test_no_new_attempt_starts_long_after_the_last_progress(wire: Wire) -> None:
    """P3: ten minutes, whatever the budget still allows."""
    limits = RetryLimits(attempts_max=50, attempts_per_target_max=50, backoff_base_s=100, backoff_max_s=100)
    async with ChaosServer([server_error()], after_last="repeat") as server:
        target = target_of(server, wire, retry=limits)
        async with line_to(target) as line:
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            assert "no progress for 10 min" in ended.trace[-1]
            assert sum(line.clock.slept_s) <= 600


async def test_what_was_waited_at_a_gate_before_the_last_progress_gives_no_more_time_after_it() -> None:
    """P3: ten minutes since the last progress, and a wait from before it does not count twice."""
    limits = RetryLimits(attempts_max=50, attempts_per_target_max=50, backoff_base_s=100, backoff_max_s=100)
    advanced = [Say("hel"), Drop()]
    async with (
        ChaosServer([rate_limited_s(300)], advanced, [server_error()], after_last="repeat") as server,
        line_to(target_of(server, "chat", retry=limits)) as line,
    ):
        assert isinstance(await line.ask(), NoAnswer)
        since_progress = [slept_s for slept_s in line.clock.slept_s if slept_s == 50.0]
        assert sum(since_progress) <= 600


async def test_arguments_of_a_tool_call_are_progress() -> None:
    """P3: an attempt that advanced for long and then broke off is not an idle call."""
    gate = Gate()
    script = [CutCall("look", {"at": "it"}), Wait(gate), Drop()]
    async with line_of("chat", script, GOOD) as (line, _):
        task = line.start()
        await gate.reached()
        line.clock.passed_ms += 11 * 60_000
        gate.open()
        assert isinstance(await task, Answer)


@on_each_wire
async def test_a_bug_of_ours_ends_the_call_truthfully_and_keeps_the_partial(wire: Wire) -> None:
    """P4: never a network failure, never retried."""

    def stumble(event: e.Event) -> None:
        if isinstance(event, e.TextDelta) and event.text == "lo":
            raise ZeroDivisionError

    async with line_of(wire, [Say("hel"), Say("lo"), Hang()]) as (line, server):
        line.told.on_event = stumble
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "local_bug"
        assert server.seen.requests_seen == 1
        assert await server.seen.until_closed(1) == "peer"
        assert line.told.text.startswith("hel")


@on_each_wire
async def test_targets_are_immutable_and_a_call_leaves_them_as_they_were(wire: Wire) -> None:
    async with ChaosServer([overloaded()], [overloaded()]) as bad, ChaosServer(GOOD) as good:
        targets = (target_of(bad, wire, "first"), target_of(good, wire, "second"))
        async with line_to(*targets) as line:
            await line.ask()
            assert line.targets == tuple(replace(target) for target in targets)
