"""A server that may open few files: it says so, answers what it can, and goes on when it has some again."""

import asyncio
import json
import resource
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.chaos import ChaosServer, Say
from holdfast.cli.doctor.machine import files_of_server
from holdfast.host.lock import LockHolder
from holdfast.server.transport.open_files import FREE_MIN, HEALTH_PLACES, OpenFiles
from runner.program import Program, configure, program

FILES = 100
CROWD = 150


@asynccontextmanager
async def crowded(running: Program) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """More connections than may be open, of people who say nothing."""
    where = urlsplit(running.url)
    async with AsyncExitStack() as stack:
        readers: list[asyncio.StreamReader] = []
        for _ in range(CROWD):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            stack.callback(writer.close)
            readers.append(reader)
        yield readers


async def told(running: Program, path: str) -> tuple[int, dict[str, Any]]:
    """Ask by a connection of its own until there is room to be heard."""
    while True:
        headers = {"Connection": "close"}
        async with running.http.get(running.url + path, headers=headers) as answer:
            if answer.status != 503:
                return answer.status, json.loads(await answer.read())
            assert answer.headers["Retry-After"]


async def test_a_crowd_of_connections_takes_nothing_from_the_store_and_from_health(tmp_path: Path) -> None:
    """P9, P10: whoever comes too many is told so, and what runs goes on."""
    async with ChaosServer(choose=lambda _: [Say("hello")]) as chaos:
        configure(tmp_path, chaos.base_url)
        limits = {resource.RLIMIT_NOFILE: (FILES, FILES)}
        async with program(tmp_path, limits=limits) as running:
            run_id = await running.start("hi")
            async with crowded(running) as readers:
                refused = readers[-1]
                assert (await refused.readline()).startswith(b"HTTP/1.1 503")
                assert b"Retry-After: 2".lower() in (await refused.read()).lower()
                status, alive = await told(running, "/health")
                assert status == 200
                assert alive["status"] == "ok"
                assert "ulimit -n" in alive["warning"]
                finding = await asyncio.to_thread(
                    files_of_server, LockHolder(running.process.pid, running.url)
                )
                assert finding is not None
                used = finding.facts["used"]
                assert isinstance(used, int)
                assert used < FILES
            # The server may not have noticed yet that the crowd has gone.
            while "warning" in (await told(running, "/health/detailed"))[1]:
                pass
            await running.until(run_id, "run.ended")
            running.process.send_signal(signal.SIGTERM)
            code, said = await running.ended()
            assert code == 0
            assert said.count("More are refused") == 1
            assert "Traceback" not in said


def test_a_shortage_is_said_once_and_its_end_too() -> None:
    files = OpenFiles()
    for used in (90, 99, 95):
        files.look(used, FILES)
        assert files.is_short
        assert f"{used} of {FILES} open files" in files.warning
    files.look(FILES - FREE_MIN, FILES)
    assert files.is_short
    files.look(FILES - 2 * FREE_MIN, FILES)
    assert not files.warning


def test_places_for_health_are_given_past_the_limit_and_become_ordinary_ones() -> None:
    files = OpenFiles(2)
    places = [files.came() for _ in range(2 + HEALTH_PLACES + 1)]
    assert places == ["served"] * 2 + ["health"] * HEALTH_PLACES + ["none"]
    assert files.place("health") == "health"
    for _ in range(HEALTH_PLACES + 1):
        files.gone()
    assert files.place("health") == "served"
    assert files.warning
    files.gone()
    assert not files.warning
