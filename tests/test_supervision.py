"""Background tasks survive their own errors, and health names those that fail."""

import asyncio

import pytest

from holdfast.interfaces.journal import StoreFailed
from holdfast.supervision import PAUSE_LAST_S, BackgroundTasks


async def test_work_that_fails_is_restarted_after_a_growing_pause_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P3: a helper that a bug ended would leave the program looking healthy."""
    pauses: list[float] = []
    healthy, shown = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> None:
        if len(pauses) < 7:
            raise RuntimeError(f"bug {len(pauses)}")
        healthy.set()
        await shown.wait()

    async with BackgroundTasks(sleep_s=pause) as background:
        task = background.start("helper", work)
        await healthy.wait()
        assert pauses == [1, 2, 4, 8, 16, PAUSE_LAST_S, PAUSE_LAST_S]
        assert background.failing == {"helper": "RuntimeError('bug 6')"}
        shown.set()
        await task  # work that returns is done
    assert caplog.text.count("helper failed") == 7


async def test_an_expected_error_is_logged_as_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    """P3: a store whose files were removed is no bug of the work that needs it."""
    errors = [StoreFailed("the disk is gone"), ExceptionGroup("", [StoreFailed("the disk is gone")])]
    restarted = asyncio.Event()

    async def work() -> None:
        if errors:
            raise errors.pop()
        restarted.set()

    async with BackgroundTasks(sleep_s=lambda _: asyncio.sleep(0)) as background:
        background.start("helper", work)
        await restarted.wait()
    assert caplog.text.count("helper failed") == 2
    assert "the disk is gone" in caplog.text
    assert "Traceback" not in caplog.text


async def test_leaving_waits_until_whatever_still_runs_has_ended() -> None:
    cleaned: list[str] = []
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async with BackgroundTasks() as background:
        background.start("helper", work)
        await began.wait()
        assert background.failing == {}
    assert cleaned == ["up"]
