"""What the user sees while a call waits, and that a computer that slept does not cut it."""

from holdfast.chaos import (
    Begin,
    ChaosOptions,
    ChaosServer,
    Gate,
    Hang,
    ReadOnly,
    Say,
    Wait,
    overloaded,
    rate_limited_s,
    silent_port,
)
from holdfast.decisions.deadlines import State
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.models.status_lines import state_words
from holdfast.targets import Patience, RetryLimits, Target, Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import SHORT_S, line_of, line_to, request_of, target_of

GOOD = [Say("hello")]
SMALL_BUFFER = ChaosOptions(receive_buffer_bytes=4096)


@on_each_wire
async def test_the_line_says_what_is_waited_for_how_long_and_what_happens_then(wire: Wire) -> None:
    """P3, P9: every wait has one deadline, known in advance and visible."""
    first, second = Gate(), Gate()
    async with line_of(wire, [Wait(first), Begin(), Wait(second), Say("hello"), Hang()]) as (line, _):
        line.patient(first_event_s=45, first_progress_s=300, gap_s=60)
        task = line.start()
        await first.reached()
        assert await line.told.until_line("waiting") == "waiting for main-model · 0 s · reconnects at 45 s"
        first.open()
        await second.reached()
        assert await line.told.until_line("is working") == "main-model is working · 0 s · reconnects at 300 s"
        second.open()
        line_now = await line.told.until_line("is answering")
        assert line_now == "main-model is answering · 0 s · reconnects at 60 s"
        task.cancel()


@for_each_row(
    ("state", "silent_s", "words"),
    [
        (State.STREAMING, 2.9, "{model} is answering"),
        (State.STREAMING, 3.0, "waiting for {model}"),
        (State.WAITING, 30.0, "waiting for {model}"),
    ],
)
def test_a_model_that_stops_in_mid_answer_is_called_silent(state: State, silent_s: float, words: str) -> None:
    """P3: silence is told as such, and not as an answer."""
    assert state_words(state, silent_s=silent_s) == words


async def test_the_line_while_connecting() -> None:
    """P3."""
    with silent_port() as port:
        target = Target(name="main", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", model="m")
        async with line_to(target) as line:
            line.start()
            assert await line.told.until_line("m") == "connecting to m · 0 s · reconnects at 5 s"


@on_each_wire
async def test_the_line_while_sending(wire: Wire) -> None:
    """P3."""
    async with ChaosServer([ReadOnly(100), Hang()], options=SMALL_BUFFER) as server:
        target = target_of(server, wire, context_window=10_000_000)
        async with line_to(target) as line:
            line.start(request_of("x" * 4_000_000))
            sending = await line.told.until_line("sending")
            assert sending == "sending the request to main-model · 0 s · reconnects at 20 s"


@on_each_wire
async def test_the_line_while_backing_off_and_at_a_gate(wire: Wire) -> None:
    """P3, P9."""
    async with line_of(wire, [overloaded()], [rate_limited_s(12)], GOOD) as (line, _):
        line.clock.held = Gate()
        task = line.start()
        await line.clock.held.reached()
        assert line.told.line == "main was overloaded · retrying in 0 s"
        line.clock.held.open()
        line.clock.held = Gate()
        await line.clock.held.reached()
        assert line.told.line == "main asked to wait · retrying in 12 s"
        line.clock.held.open()
        assert isinstance(await task, Answer)


@on_each_wire
async def test_the_line_does_not_promise_what_will_not_happen(wire: Wire) -> None:
    """P3: on the last attempt, it says that it gives up; before a fallback, whom it asks."""
    gate = Gate()
    limits = RetryLimits(attempts_max=2)
    async with ChaosServer([Hang()], [Wait(gate)], [Wait(gate)]) as server:
        target = target_of(server, wire, retry=limits, patience=Patience(first_event_s=SHORT_S))
        spare = target_of(server, wire, "spare", retry=limits)
        async with line_to(target) as line:
            task = line.start()
            await gate.reached()
            assert f"gives up at {SHORT_S:g} s" in await line.told.until_line("waiting")
            assert isinstance(await task, NoAnswer)
            line.targets = (target, spare)
            line.patient(first_event_s=30)
            line.trying(attempts_per_target_max=1)
            task = line.start()
            await gate.reached(2)
            assert "switches to spare at 30 s" in await line.told.until_line("waiting")
            task.cancel()


@for_each_row("state", ["waiting", "streaming"])
@on_each_wire
async def test_a_sleep_of_the_computer_is_no_silence_of_the_peer(wire: Wire, state: str) -> None:
    """Scenario 15: the lid was closed for an hour; on wake the call is given time to be heard."""
    gate = Gate()
    said = [Say("hel")] if state == "streaming" else []
    async with line_of(wire, [*said, Wait(gate), Say("lo")]) as (line, server):
        line.patient(first_event_s=0.2, gap_s=0.2)
        task = line.start()
        await gate.reached()
        await line.told.until_line("is answering" if said else "waiting")
        line.clock.asleep_ms += 3_600_000
        # The watchdog looks at this clock when its timer goes off, and the peer is heard only then.
        line.clock.on_read = gate.open
        assert isinstance(await task, Answer)
        assert line.told.failures == []
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_after_a_sleep_the_peer_is_not_waited_for_for_ever(wire: Wire) -> None:
    """Scenario 15, P3."""
    async with line_of(wire, [Say("hel"), Hang()], GOOD) as (line, _):
        line.patient(gap_s=SHORT_S)
        task = line.start()
        await line.told.until_line("is answering")
        line.clock.asleep_ms += 3_600_000
        assert isinstance(await task, Answer)
        (failure,) = line.told.failures
        assert failure.kind == "stalled"
        assert "restarted after this computer or program was suspended" in failure.text
