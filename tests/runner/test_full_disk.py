"""A server that starts on a disk without room: it can be read, and goes on by itself when there is some."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.chaos import ChaosServer, Say
from runner.program import Program, configure, program

LOOK_S = 0.05  # between two looks whether the server takes messages again
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@dataclass(frozen=True, slots=True)
class Disk:
    """Where the data is, and how it becomes full and gets room again."""

    folder: Path
    limits: dict[int, tuple[int, int]]
    fill: Callable[[], None]
    make_room: Callable[[Program], None]


def limited(folder: Path) -> Disk:
    """The process may write no byte to any file."""

    def make_room(running: Program) -> None:
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, UNLIMITED)

    return Disk(folder, {resource.RLIMIT_FSIZE: (0, resource.RLIM_INFINITY)}, lambda: None, make_room)


def small(folder: Path) -> Disk:
    """A real file system of a few megabytes."""
    filler = folder / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    return Disk(folder, {}, fill, lambda _: filler.unlink())


@pytest.fixture(params=["limited", "small"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "limited":
        yield limited(tmp_path)
        return
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or not mount or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield small(tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def test_a_start_without_room_is_readable_and_takes_writes_when_there_is_room(disk: Disk) -> None:
    """P1, P2, P9: no raw error, no half-accepted input, and nobody has to start it again."""
    async with ChaosServer(choose=lambda _: [Say("hello")]) as chaos:
        configure(disk.folder, chaos.base_url)
        await use_and_end(disk, signal.SIGTERM)
        disk.fill()
        async with program(disk.folder, limits=disk.limits) as second:
            assert (await second.call("GET", "/health"))[0] == 200
            _, listed = await second.call("GET", "/api/sessions")
            assert [one["id"] for one in listed["data"]] == ["s"]
            _, health = await second.call("GET", "/health/detailed")
            assert health["status"] == "degraded"
            assert "free some space" in health["store"]["error"]
            status, refused = await second.call("POST", "/v1/runs", {"input": "lost?"})
            assert status == 503
            assert "free some space" in refused["error"]["message"]
            disk.make_room(second)
            await goes_on(second)


async def test_after_a_crash_on_a_full_disk_the_server_starts_and_goes_on(disk: Disk) -> None:
    """P6: what the log has room for is taken, and the rest when there is more."""
    if disk.limits:
        pytest.skip("what may write no byte at all cannot read a log either")
    async with ChaosServer(choose=lambda _: [Say("hello")]) as chaos:
        configure(disk.folder, chaos.base_url)
        await use_and_end(disk, signal.SIGKILL)
        disk.fill()
        async with program(disk.folder) as second:
            assert (await second.call("GET", "/api/sessions/s"))[0] == 200
            disk.make_room(second)
            await goes_on(second)


async def use_and_end(disk: Disk, how: signal.Signals) -> None:
    """One message and its answer, and then the end of the server."""
    async with program(disk.folder) as first:
        run_id = await first.start("hi", session_id="s")
        await first.until(run_id, "run.ended")
        first.process.send_signal(how)
        await first.ended()


async def goes_on(running: Program) -> None:
    """A message is taken and answered, and the end is in order."""
    body = {"input": "more", "session_id": "s"}
    while (told := await running.call("POST", "/v1/runs", body))[0] == 503:  # noqa: ASYNC110  # only asking tells
        await asyncio.sleep(LOOK_S)
    assert told[0] == 202, told
    await running.until(told[1]["run_id"], "run.ended")
    _, shown = await running.call("GET", "/api/sessions/s/messages")
    assert [one["content"] for one in shown["data"] if one.get("role") == "user"] == ["hi", "more"]
    running.process.send_signal(signal.SIGTERM)
    code, said = await running.ended()
    assert code == 0
    assert "Traceback" not in said


async def test_a_first_start_without_room_says_what_to_do(disk: Disk) -> None:
    configure(disk.folder, "http://127.0.0.1:9")
    config = disk.folder / "holdfast.toml"
    config.write_text(config.read_text().replace("api_keys = []\n", ""))
    (disk.folder / "data").mkdir()
    disk.fill()
    with pytest.raises(AssertionError, match="free some space") as told:
        async with program(disk.folder, limits=disk.limits):
            pass
    assert "Traceback" not in str(told.value)
