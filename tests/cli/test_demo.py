"""`holdfast demo`: the whole tour as a process of its own; it claims only what it has just seen."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.chaos import ChaosServer, EndOfBody, Hang, Say, SayWords, Status
from holdfast.cli.demo.acts import ACTS
from holdfast.cli.demo.server import clean_environment, naive_answer, naive_crash, naive_stop


@pytest.mark.release
@pytest.mark.long
@pytest.mark.timeout(240)  # it waits for real watchdogs, and starts a server twice
async def test_the_tour_shows_every_fault_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Stall, drop, 429, stop and kill -9 over a real server; exit code 0 says that it coped."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "demo", "--fast"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean_environment(), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    out, err = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, text + err.decode()
    assert "\x1b" not in text
    assert [act.title for act in ACTS if act.title not in text] == []
    assert text.count("From the log:") == text.count("Plain code ") == len(ACTS)
    for words in ("no first byte in 1 s", "429", "cancelled user_stop", "run.resumed", "attempt.superseded"):
        assert words in text
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


async def test_plain_code_really_suffers_what_the_tour_says() -> None:
    async with ChaosServer([Say("half"), EndOfBody()], [Status(429)]) as chaos:
        assert await naive_answer(chaos.base_url, "hi", patience_s=20) == "gets “half”"
        assert "429" in await naive_answer(chaos.base_url, "hi", patience_s=20)
    assert "keeps running" in await naive_stop()
    async with ChaosServer([SayWords("one two three"), Hang()]) as chaos:
        assert "after 2 chunks" in await naive_crash(chaos.base_url, "hi", pieces=2)
