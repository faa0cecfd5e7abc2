"""The timer of a wait, on a loop whose clock the test moves."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from holdfast.decisions.deadlines import RequestFacts, Sign, effective
from holdfast.guard.waits import DeadlinePassed, DeadlineWatch
from holdfast.targets import Patience
from moved_loop import MovedLoop, time_passes

PATIENCE = Patience(connect_s=20, gap_s=20, first_progress_s=500)


def _run(scenario: Callable[[DeadlineWatch], Coroutine[object, object, None]]) -> None:
    async def scene() -> None:
        deadlines = effective(PATIENCE, RequestFacts(local=False, input_tokens=0))
        await scenario(DeadlineWatch(deadlines, before_kill=lambda _: None))

    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        runner.run(scene())


def _waiting(watch: DeadlineWatch) -> "tuple[asyncio.Task[str], asyncio.Future[str]]":
    peer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return asyncio.create_task(watch.wait(peer)), peer


async def _ended(waiting: "asyncio.Task[str]") -> DeadlinePassed:
    assert waiting.done(), "time on the loop's own clock would end it later"
    with pytest.raises(DeadlinePassed) as raised:
        await waiting
    return raised.value


def _stream(watch: DeadlineWatch) -> None:
    for sign in (Sign.CONNECTED, Sign.SENT, Sign.PROGRESS):
        watch.sign(sign)


def test_a_wait_ends_at_its_deadline_and_not_before() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        waiting, _ = _waiting(watch)
        await time_passes(19)
        assert not waiting.done()
        await time_passes(2)
        assert (await _ended(waiting)).deadline.kind == "connect"

    _run(scenario)


def test_keep_alives_end_a_wait_and_renew_nothing() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        _stream(watch)
        for _ in range(3):
            waiting, peer = _waiting(watch)
            await time_passes(6)
            peer.set_result(": keep-alive")
            await waiting
            watch.sign(Sign.ALIVE)
        waiting, _ = _waiting(watch)
        await time_passes(3)
        assert (await _ended(waiting)).deadline.kind == "gap"

    _run(scenario)


def test_progress_renews_the_wait() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        _stream(watch)
        for _ in range(10):
            waiting, peer = _waiting(watch)
            await time_passes(15)
            peer.set_result("more")
            assert await waiting == "more"
            watch.sign(Sign.PROGRESS)

    _run(scenario)


def test_the_time_between_two_waits_is_the_readers() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        _stream(watch)
        waiting, peer = _waiting(watch)
        await time_passes(15)
        peer.set_result("more")
        await waiting
        await time_passes(3600)
        waiting, _ = _waiting(watch)
        await time_passes(4)
        assert not waiting.done()
        await time_passes(2)
        await _ended(waiting)

    _run(scenario)


def test_after_the_computer_slept_the_wait_begins_anew_but_short() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        waiting, _ = _waiting(watch)
        await time_passes(3600)
        assert not waiting.done()
        await time_passes(14)
        assert not waiting.done()
        await time_passes(2)
        assert (await _ended(waiting)).deadline.why == "woke"

    _run(scenario)


def test_a_thinking_model_has_the_longer_patience() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        _stream(watch)
        watch.sign(Sign.OPENING)
        waiting, peer = _waiting(watch)
        await time_passes(499)
        peer.set_result("more")
        assert await waiting == "more"

    _run(scenario)


def test_a_timeout_that_is_not_ours_passes() -> None:
    async def scenario(watch: DeadlineWatch) -> None:
        waiting, peer = _waiting(watch)
        await asyncio.sleep(0)
        peer.set_exception(TimeoutError("of somebody else"))
        with pytest.raises(TimeoutError, match="of somebody else"):
            await waiting

    _run(scenario)
