"""Nobody there: a model that is away for a while is waited for, quietly, and for a time that is known."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import events as e
from holdfast.chaos import ChaosServer, Drop, Gate, Say, closed_port, rate_limited_s, server_error
from holdfast.chaos.server import ChaosOptions
from holdfast.chaos.statuses import loading
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.targets import RetryLimits, Target, Wire
from ports import reserved_port
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import HANGS_S, Line, TestClock, ended_by, line_of, line_to, nothing_left, target_of

GOOD = [Say("hello")]


class Back:
    """A model server that is away until the clock has slept for so long."""

    def __init__(self, port: int, *scripts: Sequence[Any], after_s: float, clock: TestClock) -> None:
        self.server = ChaosServer(*scripts, options=ChaosOptions(port=port))
        self._after_s = after_s
        self._clock = clock

    async def come_back(self) -> None:
        async with asyncio.timeout(HANGS_S):
            while sum(self._clock.slept_s) < self._after_s:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await self.server.__aenter__()


@asynccontextmanager
async def away(
    wire: Wire, *scripts: Sequence[Any], after_s: float, known: bool = True, **fields: Any
) -> AsyncGenerator[tuple[Line, ChaosServer]]:
    """A line to a model that has answered before, and is away for so long now."""
    port = reserved_port()
    clock = TestClock()
    back = Back(port, *scripts, after_s=after_s, clock=clock)
    url = f"http://127.0.0.1:{port}"
    target = Target(
        name="main", wire=wire, base_url=url if wire == "anthropic" else f"{url}/v1", model="m", **fields
    )
    async with line_to(target, clock=clock) as line:
        if known:
            await line.shared.reached(target)
        coming = asyncio.create_task(back.come_back())
        try:
            yield line, back.server
        finally:
            coming.cancel()
            await asyncio.wait([coming])
            await back.server.aclose()


@on_each_wire
async def test_a_model_that_comes_back_in_time_answers_as_if_nothing_had_been(wire: Wire) -> None:
    """P6, P9: neither the number of attempts nor the person hears of the tries in between."""
    async with away(wire, GOOD, after_s=50) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "hello"
        assert line.told.kinds == ["connect_failed"]
        first, second = line.told.of(e.AttemptStarted)
        assert (first.nth, first.reconnects, second.nth) == (1, 0, 2)
        assert second.reconnects == len(line.clock.slept_s), (
            "one at once, and one after each wait but the last"
        )
        assert server.seen.requests_seen == 1
        assert line.told.notices == []


@on_each_wire
async def test_a_server_that_is_still_loading_its_model_is_waited_for(wire: Wire) -> None:
    """P6: after a reboot a local model server listens long before it can answer."""
    async with line_of(wire, *([loading()] for _ in range(12)), GOOD) as (line, chaos):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "hello"
        assert set(line.told.kinds) == {"overloaded"}
        assert chaos.seen.requests_seen == 13
        assert line.told.notices == []


@on_each_wire
async def test_a_model_that_stays_away_is_given_up_after_a_minute_with_one_more_event(wire: Wire) -> None:
    """P3, P9: the log tells of the first try and of the end, the trace of all of them."""
    async with away(wire, after_s=10**6) as (line, _):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert line.told.kinds == ["connect_failed"] * 2
        assert sum(line.clock.slept_s) == 60
        tries = 2 + line.told.of(e.AttemptStarted)[-1].reconnects
        assert f"(gave up after {tries} tries in 1 min 0 s)" in ended.failure.text
        first, last = ended.trace
        assert first.endswith("refused the connection; retried")
        assert f"({tries - 1} more tries in 1 min 0 s); gave up: main couldn't be reached" in last


@for_each_row(
    ("run", "model", "after_s"), [("resumed", "", 299), ("resumed", "stranger", 299), ("", "stranger", 9)]
)
@on_each_wire
async def test_how_long_it_is_waited_for_depends_on_what_is_known(
    wire: Wire, run: str, model: str, after_s: float
) -> None:
    """P6: after a crash for longer, at an address where nobody ever answered not for long."""
    for back_s, ending in ((after_s, Answer), (after_s + 2, NoAnswer)):
        async with away(wire, GOOD, after_s=back_s, known=not model) as (line, _):
            line.told.resumed = bool(run)
            assert isinstance(await line.ask(), ending)


@on_each_wire
async def test_that_somebody_answered_is_remembered_over_a_restart(wire: Wire) -> None:
    """P6: also if all that was ever heard is an error."""
    disk = MemoryDisk()
    async with ChaosServer([server_error()], after_last="repeat") as server:
        target = target_of(server, wire)
        async with line_to(target, disk=disk) as line:
            assert not line.shared.has_answered(target)
            assert isinstance(await line.ask(), NoAnswer)
        async with line_to(target, disk=disk) as line:
            assert line.shared.has_answered(target)
            assert line.shared.has_answered(target_of(server, wire, "other", model="another"))
            assert line.shared.learned_p95_s(target, 1) is None or line.shared.learned_p95_s(target, 1) == 0


@on_each_wire
async def test_a_stream_that_drops_because_its_model_went_away_goes_on_when_it_is_back(wire: Wire) -> None:
    """P6: the half answer is superseded, and what follows is an outage like any other."""
    async with away(wire, GOOD, after_s=20) as (line, _):
        port = int(line.targets[0].base_url.split(":")[2].split("/")[0])

        def go_away(event: e.Event) -> None:
            if isinstance(event, e.TextDelta) and event.text == "hel":
                went.append(asyncio.create_task(first.aclose()))

        went: list[asyncio.Task[None]] = []
        async with ChaosServer([Say("hel"), Drop()], options=ChaosOptions(port=port)) as first:
            line.told.on_event = go_away
            assert isinstance(await line.ask(), Answer)
            await asyncio.gather(*went)
        assert line.told.kinds == ["dropped", "connect_failed"]
        assert line.told.text == "hello"
        assert line.told.of(e.AttemptSuperseded)


@on_each_wire
async def test_the_live_line_says_for_how_long_it_is_tried(wire: Wire) -> None:
    """P3."""
    async with away(wire, after_s=10**6) as (line, _):
        line.clock.held = Gate()
        task = line.start()
        assert await line.told.until_line("reached") == "main can't be reached; retrying for 60 s"
        line.clock.passed_ms += 13_000
        assert line.told.line == "main can't be reached; retrying for 47 s"
        task.cancel()


async def test_a_stop_ends_the_waiting_at_once_and_leaves_no_open_attempt(wire: Wire) -> None:
    """P5."""
    async with away(wire, GOOD, after_s=10**6) as (line, server):
        line.clock.held = Gate()
        task = line.start()
        await line.clock.held.reached()
        await ended_by(task, "user_stop")
        assert line.told.kinds == ["connect_failed"]
        assert len(line.told.of(e.AttemptStarted)) == 1
        assert server.seen.requests_seen == 0
    await nothing_left()


@on_each_wire
async def test_another_address_is_asked_after_five_seconds_and_by_the_next_call_at_once(wire: Wire) -> None:
    """P9: one notice of the switch."""
    async with away(wire, after_s=10**6) as (line, _), ChaosServer(GOOD, GOOD) as other:
        line.targets = (line.targets[0], target_of(other, wire, "backup"))
        assert isinstance(await line.ask(), Answer)
        assert sum(line.clock.slept_s) == 5
        assert line.told.notices == ["switched"]
        assert [event.why for event in line.told.of(e.TargetSwitched)] == ["main couldn't be reached"]
        assert len(line.told.of(e.AttemptStarted)) == 2
        line.clock.slept_s.clear()
        again = line.another_voice()
        assert isinstance(await line.ask(sink=again), Answer)
        assert line.clock.slept_s == [], "nobody has been there since"


@on_each_wire
async def test_the_live_line_names_who_is_asked_next(wire: Wire) -> None:
    """P3."""
    async with away(wire, after_s=10**6) as (line, _), ChaosServer() as other:
        line.targets = (line.targets[0], target_of(other, wire, "backup"))
        line.clock.held = Gate()
        task = line.start()
        assert await line.told.until_line("reached") == "main can't be reached; switching to backup in 5 s"
        task.cancel()


@on_each_wire
async def test_two_models_that_are_away_are_asked_in_turn_and_the_first_to_return_answers(wire: Wire) -> None:
    """P6."""
    async with away(wire, GOOD, after_s=40) as (line, server):
        with closed_port() as port:
            url = f"http://127.0.0.1:{port}/v1"
            other = Target(name="other", wire=wire, base_url=url, model="m")
            await line.shared.reached(other)
            line.targets = (other, line.targets[0])
            assert isinstance(await line.ask(), Answer)
            assert server.seen.requests_seen == 1
            assert line.told.kinds == ["connect_failed"] * 2, "the first of each address"


@on_each_wire
async def test_a_wait_at_a_gate_starts_the_time_anew(wire: Wire) -> None:
    """P6: away for a while, then busy for a minute, then away again."""
    async with away(wire, [rate_limited_s(30)], after_s=50) as (line, server):
        line.trying(attempts_per_target_max=5, backoff_base_s=0)

        def go_away(event: e.Event) -> None:
            if isinstance(event, e.AttemptFailed) and event.failure.kind == "rate_limited":
                went.append(asyncio.create_task(server.aclose()))

        went: list[asyncio.Task[None]] = []
        line.told.on_event = go_away
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        await asyncio.gather(*went)
        assert line.told.kinds == ["connect_failed", "rate_limited", "connect_failed", "connect_failed"]
        assert sum(line.clock.slept_s) > 50 + 30 + 60 - 1
        assert any("more tries in" in note and note.startswith("main: ") for note in ended.trace)


@on_each_wire
async def test_an_outage_costs_a_later_failure_none_of_its_attempts(wire: Wire) -> None:
    """P6: the model returns and stumbles twice before it answers."""
    scripts = [[server_error()], [server_error()], GOOD]
    async with away(wire, *scripts, after_s=30, retry=RetryLimits(attempts_max=3)) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert server.seen.requests_seen == 3


@on_each_wire
async def test_breakers_do_not_count_an_outage(wire: Wire) -> None:
    async with away(wire, after_s=10**6) as (line, _):
        await line.ask()
        assert line.shared.breaker(line.targets[0]).silent == 0
