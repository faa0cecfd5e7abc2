"""What all runs know together: the gate of an endpoint and key, the breaker of a target, what was learned."""

import asyncio

from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Hang, Say, Wait, overloaded_s, rate_limited_s, server_error
from holdfast.interfaces.journal import StoreFull
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.models.target_states import TargetStates
from holdfast.targets import Patience, RetryLimits, Wire
from holdfast.values import Failure
from side_by_side import on_each_wire
from stores import MemoryStore
from tables import for_each_row

from .calling import SHORT_S, Line, TestClock, line_of, line_to, target_of
from .silence_campaign import silent_target

GOOD = [Say("hello")]
QUICK = Patience(first_event_s=0.05)  # only with a target that stays silent


async def gated(line: Line, until_s: float) -> None:
    await line.told.until_line("retrying in")
    assert line.told.of(e.CallGated)[0].until_ms == line.clock.now_ms() + 1000 * until_s


@on_each_wire
async def test_ten_runs_learn_one_429_once(wire: Wire) -> None:
    """Scenario 11, P10."""
    async with line_of(wire, [rate_limited_s(30)], *([GOOD] * 10)) as (line, server):
        line.clock.held = Gate()
        first = line.start()
        await line.clock.held.reached()
        voices = [line.another_voice() for _ in range(9)]
        others = [line.start(sink=sink) for sink in voices]
        await line.clock.held.reached(10)
        assert server.seen.requests_seen == 1, "nobody asks before the reset"
        assert all("main asked to wait · retrying in 30 s" in sink.line for sink in voices)
        line.clock.held.open()
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(first, *others))
        assert server.seen.requests_seen == 11


@on_each_wire
async def test_other_keys_and_endpoints_do_not_wait(wire: Wire) -> None:
    """Scenario 11, P10: a gate is for one endpoint and key."""
    async with ChaosServer([rate_limited_s(30)], GOOD, GOOD) as server:
        main = target_of(server, wire)
        async with line_to(main) as line:
            line.clock.held = Gate()
            line.start()
            await line.clock.held.reached()
            line.targets = (target_of(server, wire, api_key="sk-another-key"),)
            assert isinstance(await line.ask(sink=line.another_voice()), Answer)


@for_each_row("answer", [rate_limited_s(600), overloaded_s(600)], ids=["429", "503"])
@on_each_wire
async def test_a_long_wait_without_a_fallback_is_a_visible_gate(wire: Wire, answer: object) -> None:
    """Scenario 10, P3, P9."""
    async with line_of(wire, [answer], GOOD) as (line, _):
        line.clock.held = Gate()
        task = line.start()
        await gated(line, 600)
        assert line.told.notices == ["gated"]
        line.clock.held.open()
        assert isinstance(await task, Answer)
        assert len(line.told.of(e.CallGated)) == 1


@on_each_wire
async def test_a_long_wait_with_a_fallback_is_a_switch(wire: Wire) -> None:
    """Scenario 10."""
    async with ChaosServer([rate_limited_s(600)]) as full, ChaosServer(GOOD, GOOD) as free:
        first, second = target_of(full, wire, "first"), target_of(free, wire, "second")
        async with line_to(first, second) as line:
            assert isinstance(await line.ask(), Answer)
            assert line.told.notices == ["switched"]
            again = line.another_voice()
            assert isinstance(await line.ask(sink=again), Answer)
            assert full.seen.requests_seen == 1, "the next call goes to the other at once"
            assert again.notices == ["switched"]


@on_each_wire
async def test_a_call_that_meets_a_gate_closed_for_long_says_so(wire: Wire) -> None:
    """Scenario 10, P9: also a call that did not get the 429 itself."""
    async with line_of(wire, [rate_limited_s(600)], GOOD, GOOD) as (line, _):
        line.clock.held = Gate()
        line.start()
        await line.clock.held.reached()
        other = line.another_voice()
        line.start(sink=other)
        await line.clock.held.reached(2)
        assert [event.until_ms - line.clock.now_ms() for event in other.of(e.CallGated)] == [600_000]


@on_each_wire
async def test_try_now_lets_exactly_one_attempt_pass(wire: Wire) -> None:
    """Scenario 11: one further request before the reset, and the gate stays closed for the rest."""
    async with line_of(wire, [rate_limited_s(600)], [rate_limited_s(300)], GOOD, GOOD, GOOD) as (
        line,
        server,
    ):
        line.clock.held = Gate()
        tasks = [line.start()]
        await line.clock.held.reached()
        tasks += [line.start(sink=line.another_voice()) for _ in range(2)]
        await line.clock.held.reached(3)
        assert await line.shared.try_now(line.targets[0])
        await server.seen.until_ended(2)
        await line.clock.held.reached(6)
        assert server.seen.requests_seen == 2
        assert not await line.shared.try_now(line.targets[0]), "one has passed already"
        line.clock.held.open()
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(*tasks))
        assert server.seen.requests_seen == 5


async def test_a_pass_that_nobody_used_is_not_good_for_the_next_closing() -> None:
    """P10: who said "try now" meant the wait that he saw."""
    async with line_of("chat", GOOD) as (line, _):
        target, now_ms = line.targets[0], line.clock.now_ms()
        await line.shared.close_gate(target, 60_000, why="")
        assert await line.shared.try_now(target)
        await line.shared.close_gate(target, 120_000, why="")
        await line.shared.wait_at_gate(target)
        assert line.clock.now_ms() == now_ms + 120_000


async def test_a_wait_at_a_gate_looks_at_the_clock_now_and_then() -> None:
    """P3: a computer that slept meanwhile finds that the time has come."""
    async with line_of("chat", GOOD) as (line, _):
        target = line.targets[0]
        await line.shared.close_gate(target, 3_600_000, why="")
        line.clock.held = Gate()
        waiting = asyncio.create_task(line.shared.wait_at_gate(target))
        await line.clock.held.reached()
        line.clock.asleep_ms += 3_590_000
        line.clock.held.open()
        await waiting
        assert line.clock.slept_s == [15.0]


@on_each_wire
async def test_an_attempt_that_passed_and_was_answered_opens_the_gate(wire: Wire) -> None:
    """Scenario 11."""
    async with line_of(wire, [rate_limited_s(600)], GOOD, GOOD, GOOD) as (line, _):
        line.clock.held = Gate()
        tasks = [line.start()]
        await line.clock.held.reached()
        tasks += [line.start(sink=line.another_voice()) for _ in range(2)]
        await line.clock.held.reached(3)
        assert await line.shared.try_now(line.targets[0])
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(*tasks))
        assert line.clock.slept_s, "and nobody slept to the end"
        assert line.clock.passed_ms == 0


@on_each_wire
async def test_a_gate_is_remembered_over_a_restart(wire: Wire) -> None:
    """Scenario 10, P6."""
    disk, clock = MemoryDisk(), TestClock()
    async with ChaosServer([rate_limited_s(600)], GOOD) as server:
        target = target_of(server, wire)
        async with line_to(target, clock=clock, disk=disk) as line:
            clock.held = Gate()
            line.start()
            await clock.held.reached()
        clock.passed_ms += 60_000
        async with line_to(target, clock=clock, disk=disk) as line:
            clock.held = Gate()
            task = line.start()
            await gated(line, 540)
            assert server.seen.requests_seen == 1
            assert await line.shared.try_now(target)
            assert isinstance(await task, Answer)


@on_each_wire
async def test_the_breaker_opens_and_heals_without_a_human(wire: Wire) -> None:
    """Scenario 12."""
    once = RetryLimits(attempts_per_target_max=1)
    async with (
        ChaosServer([Hang()], [Hang()], [Hang()], GOOD, GOOD) as sick,
        ChaosServer(GOOD, after_last="repeat") as well,
    ):
        first = target_of(sick, wire, "first", patience=QUICK, retry=once)
        second = target_of(well, wire, "second")
        async with line_to(first, second) as line:

            async def answered_by() -> str:
                sink = line.another_voice()
                assert isinstance(await line.ask(sink=sink), Answer)
                return sink.of(e.AttemptStarted)[-1].target

            assert [await answered_by() for _ in range(3)] == ["second"] * 3
            assert sick.seen.requests_seen == 3
            assert await answered_by() == "second"
            assert sick.seen.requests_seen == 3, "the breaker is open: it is not even asked"
            line.clock.passed_ms += 30_000
            line.patient()
            assert await answered_by() == "first", "the probe found it healed"
            assert await answered_by() == "first"
            assert line.shared.breaker(first).silent == 0


@on_each_wire
async def test_one_probe_at_a_time_and_a_failed_one_waits_longer(wire: Wire) -> None:
    """Scenario 12."""
    once = RetryLimits(attempts_per_target_max=1)
    gate = Gate()
    async with (
        ChaosServer([Hang()], after_last="repeat") as sick,
        ChaosServer(GOOD, after_last="repeat") as well,
    ):
        first = target_of(sick, wire, "first", patience=QUICK, retry=once)
        async with line_to(first, target_of(well, wire, "second")) as line:
            for _ in range(3):
                await line.ask(sink=line.another_voice())
            line.clock.passed_ms += 30_000
            probe = line.start(sink=line.another_voice())
            await sick.seen.until_request(4)
            assert isinstance(await line.ask(sink=line.another_voice()), Answer)
            assert sick.seen.requests_seen == 4, "the second call does not probe too"
            await probe
            assert line.shared.breaker(first).cooldown_ms == 60_000
            gate.open()


async def test_a_persons_try_now_beside_a_probe_makes_no_room_for_another() -> None:
    """P3: it asks at once, whoever else is asking."""
    async with line_of("chat") as (line, _):
        (target,), shared = line.targets, line.shared
        for _ in range(3):
            await shared.failed(target, Failure(kind="stalled", text=""))
        with shared.attempting(target):
            with shared.attempting(target):
                pass
            assert not shared.may_probe_early(target), "the first one is still under way"
        assert shared.may_probe_early(target)


async def test_a_retry_that_waited_for_the_breaker_is_its_probe() -> None:
    """Scenario 12: if it is silent too, the next one waits for twice as long."""
    four = RetryLimits(attempts_max=4, attempts_per_target_max=4)
    async with line_of("chat", *([[Hang()]] * 4), patience=QUICK, retry=four) as (line, server):
        assert isinstance(await line.ask(), NoAnswer)
        assert server.seen.requests_seen == 4
        assert line.clock.slept_s[-2:] == [15.0, 15.0], "it waits for the breaker"
        assert line.shared.breaker(line.targets[0]).cooldown_ms == 60_000


@on_each_wire
async def test_a_message_earns_one_probe_when_there_is_no_other_target(wire: Wire) -> None:
    """Scenario 12: an open breaker never stands between a person and the only target."""
    async with line_of(wire, [Hang()], [Hang()], [Hang()], GOOD, patience=QUICK) as (line, server):
        assert isinstance(await line.ask(), NoAnswer)
        assert line.shared.breaker(line.targets[0]).cooldown_ms
        line.patient()
        assert isinstance(await line.ask(sink=line.another_voice()), Answer)
        assert server.seen.requests_seen == 4


@on_each_wire
async def test_a_breaker_that_waits_for_long_is_a_gate_for_this_call_alone(wire: Wire) -> None:
    """P10: one silent model does not close its endpoint for the others."""
    async with ChaosServer([Hang()], GOOD, GOOD) as server:
        slow = target_of(server, wire, patience=Patience(first_event_s=SHORT_S), model="slow")
        quick = target_of(server, wire, model="quick")
        async with line_to(slow) as line:
            for _ in range(5):
                if line.shared.may_pass(slow):
                    await line.shared.failed(slow, Failure(kind="stalled", text=""))
                line.clock.passed_ms += line.shared.breaker_wait_ms(slow)
            line.clock.held = Gate()
            task = line.start()
            await gated(line, 240)
            line.targets = (quick,)
            assert isinstance(await line.ask(sink=line.another_voice()), Answer)
            assert await line.shared.try_now(slow)
            assert isinstance(await task, Answer)


async def test_a_target_that_answers_one_call_again_is_free_for_all_that_wait_for_it() -> None:
    """P3, P10: however many messages met its silence, the pause has grown with time alone."""
    voice = Gate()
    patience, at_once = Patience(first_event_s=SHORT_S), RetryLimits(backoff_base_s=0)
    async with (
        ChaosServer([Wait(voice), *GOOD], after_last="repeat") as server,
        line_to(target_of(server, "chat", patience=patience, retry=at_once)) as line,
    ):
        line.clock.held = Gate()
        voices = [line.another_voice() for _ in range(14)]
        waiting = [line.start(sink=sink) for sink in voices]
        for sink in voices:
            await sink.until_line("retrying in 30 s")
        for _ in range(3):
            early = line.start(sink=(sink := line.another_voice()))
            await sink.until_line("retrying in 30 s")
            early.cancel()
        assert line.shared.breaker(line.targets[0]).cooldown_ms == 30_000
        voice.open()
        assert isinstance(await line.ask(sink=line.another_voice()), Answer)
        line.clock.held.open()
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(*waiting))
        assert line.clock.passed_ms < 15_000, "nobody waited for the rest of the pause"
        assert min(line.clock.slept_s) <= 0.1, "they went one after the other"
        assert server.seen.requests_seen >= 14 + 3 + 1 + 14


async def test_one_message_at_a_time_probes_a_silent_target() -> None:
    """P3: the others say that they wait; the first progress frees them, and so does a stop."""
    voice, end = Gate(), Gate()
    script = [Wait(voice), Say("hel"), Wait(end), Say("lo")]
    async with (
        ChaosServer(script, after_last="repeat") as server,
        line_to(target_of(server, "chat")) as line,
    ):
        target = line.targets[0]
        for _ in range(3):
            await line.shared.failed(target, Failure(kind="stalled", text=""))
        line.clock.held = Gate()
        stopped = line.start(sink=line.another_voice())
        await server.seen.until_request(1)
        voices = [line.another_voice(), line.another_voice()]
        others = [line.start(sink=sink) for sink in voices]
        for sink in voices:
            await sink.until_line("main hasn't answered recently · retrying in 30 s")
        assert server.seen.requests_seen == 1
        stopped.cancel()
        await server.seen.until_request(2)
        assert sum("hasn't answered recently" in sink.line for sink in voices) == 1
        voice.open()
        await server.seen.until_request(3)
        end.open()
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(*others))


@for_each_row("seed", range(1, 6))
async def test_any_silence_ends_for_all_calls_at_once(seed: int) -> None:
    """P3, P10: the campaign itself asserts."""
    await silent_target(seed=seed, rounds=4)


@on_each_wire
async def test_breakers_are_remembered_over_a_restart(wire: Wire) -> None:
    """Scenario 12, P6."""
    disk = MemoryDisk()
    async with ChaosServer([Hang()], [Hang()], [Hang()]) as server:
        target = target_of(server, wire, patience=QUICK)
        async with line_to(target, disk=disk) as line:
            await line.ask()
        async with line_to(target, disk=disk) as line:
            assert line.shared.breaker(target).cooldown_ms == 30_000


async def test_patience_grows_with_what_a_target_usually_takes() -> None:
    """S001-1: learned from calls that were answered, kept as a note."""
    disk = MemoryDisk()
    async with ChaosServer(GOOD, after_last="repeat") as server:
        target = target_of(server, "chat")
        async with line_to(target, disk=disk) as line:
            await line.ask()
            assert line.shared.learned_p95_s(target, 1) is not None
            await line.shared.got_first_event(target, 1, first_event_s=200)
            await line.ask()
            assert line.told.of(e.AttemptStarted)[-1].first_event_s == 600
        async with line_to(target, disk=disk) as line:
            assert line.shared.learned_p95_s(target, 1) == 200


async def test_patience_shrinks_with_experience_for_the_first_attempt_of_a_call() -> None:
    """P3: 300 s for a model on this machine is a guess; one that has to be loaded gets them at the retry."""
    async with line_of("chat", [server_error()], GOOD) as (line, _):
        for _ in range(20):
            await line.shared.got_first_event(line.targets[0], 1, first_event_s=0.1)
        assert isinstance(await line.ask(), Answer)
        assert [started.first_event_s for started in line.told.of(e.AttemptStarted)] == [45, 300]


class FullStore(MemoryStore):
    """Has no room for notes."""

    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        del key, value, expected
        raise StoreFull("no room")


async def test_what_is_learned_is_how_long_the_first_event_took() -> None:
    now_s = asyncio.get_running_loop().time
    async with line_of("chat", GOOD) as (line, _):
        before_s = now_s()
        await line.ask()
        learned_s = line.shared.learned_p95_s(line.targets[0], 1)
        assert learned_s is not None
        assert 0 <= learned_s <= round(now_s() - before_s, 3), "a part of the whole"


@on_each_wire
async def test_a_note_that_cannot_be_written_fails_no_call(wire: Wire) -> None:
    """P10: losing a note may cost time, never an answer."""
    async with line_of(wire, [rate_limited_s(1)], [server_error()], GOOD) as (line, _):
        line.shared = TargetStates(FullStore(), line.clock)
        assert isinstance(await line.ask(), Answer)


async def test_two_servers_count_the_failures_of_a_target_together() -> None:
    """P10: neither's count overwrites the other's, and a gate that one closes holds at the other."""
    clock, disk = TestClock(), MemoryDisk()
    one, other = TargetStates(MemoryStore(disk), clock), TargetStates(MemoryStore(disk), clock)
    async with ChaosServer() as server:
        target = target_of(server, "chat")
    silent = Failure(kind="no_first_event", text="silent", rule="x")
    await one.failed(target, silent)
    await other.failed(target, silent)
    assert not other.breaker_wait_ms(target)
    await one.failed(target, silent)
    assert one.breaker_wait_ms(target) > 0, "three failures in a row, of two servers"
    await one.close_gate(target, 60_000, why="busy")
    await other.close_gate(target, 5_000, why="busy too")
    assert one.gate_wait_ms(target) == other.gate_wait_ms(target) == 60_000, "the later time wins"
    await other.load()
    assert other.breaker_wait_ms(target) == one.breaker_wait_ms(target)
    closed = other.gate(target)
    await other.load()
    assert other.gate(target) is closed, "what nobody has changed is the same gate"
    await one.open_gate(target, one.gate(target))
    await other.load()
    assert other.gate_wait_ms(target) == 0


class CountingStore(MemoryStore):
    """Counts the writes of notes."""

    writes = 0

    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        self.writes += 1
        await asyncio.sleep(0)
        return await super().swap_note(key, value, expected=expected)


async def test_calls_that_fail_at_once_count_all_and_share_their_writes() -> None:
    """P10: a storm of failures neither loses a count nor queues a write for each of them."""
    clock, disk = TestClock(), MemoryDisk()
    store, other = CountingStore(disk), TargetStates(MemoryStore(disk), clock)
    here = TargetStates(store, clock)
    async with ChaosServer() as server:
        target = target_of(server, "chat")
    silent = Failure(kind="no_first_event", text="silent", rule="x")
    await other.failed(target, silent)
    await asyncio.gather(here.failed(target, silent), here.failed(target, silent))
    await other.load()
    assert other.breaker(target).silent == here.breaker(target).silent == 3
    assert store.writes == 2, "the first meets what the other server wrote, and the second has both"


async def test_what_two_servers_learn_at_once_is_kept_of_both() -> None:
    clock, disk = TestClock(), MemoryDisk()
    one, other = TargetStates(MemoryStore(disk), clock), TargetStates(MemoryStore(disk), clock)
    async with ChaosServer() as server:
        target = target_of(server, "chat")
    for states in (one, other):
        await states.got_first_event(target, 1, first_event_s=2.0)
    await one.load()
    assert one.learned(target) == other.learned(target)
    third = TargetStates(MemoryStore(disk), clock)
    await third.load()
    await third.got_first_event(target, 1, first_event_s=2.0)
    assert third.learned(target) != one.learned(target), "it knows both of theirs and its own"
