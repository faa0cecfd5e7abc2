"""Pipes that are lent to a loop are closed once: their numbers belong to others afterwards."""

import asyncio
import os

import pytest

from holdfast.features.mcp_client.stdio import LentPipe
from tools.loops import ON_BOTH_LOOPS


@ON_BOTH_LOOPS
async def test_a_pipe_that_the_loop_has_closed_is_not_closed_again_under_its_next_owner() -> None:
    """P10: another thread that was given the number keeps its file."""
    ours, theirs = os.pipe()
    pipe = LentPipe(os.fdopen(ours, "rb", buffering=0))
    number = pipe.fileno()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(asyncio.Protocol, pipe)
    transport.close()
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    os.dup2(theirs, number)
    pipe.close()
    assert os.fstat(number)
    os.close(number)
    os.close(theirs)
