"""A shell whose foreground commands are killed when the server's lease isn't renewed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from holdfast.supervision import BackgroundTasks
from holdfast.tools.shell.background import Background
from holdfast.tools.shell.lease_watchdog import LeaseWatchdog, watched_tools
from holdfast.tools.shell.tool import Shell, ShellWorld
from tools.calls import ENVIRONMENT, QUICK, Call, until

NEVER_S = 1e6  # a lease that doesn't end while the test runs


def kept_shell(watchdog: LeaseWatchdog, background: Background) -> Shell:
    environment = {**ENVIRONMENT, **watchdog.environment}
    world = ShellWorld(
        environment=environment,
        background=background,
        kill_patience=QUICK,
        early_end_s=0.0,
        watchdog=watchdog,
    )
    return Shell(world)


async def check_a_command_on_a_volume_is_killed_and_a_local_one_goes_on(
    watchdog_of: Callable[[Path], LeaseWatchdog], folder: Path
) -> None:
    """P6: two servers never work on the same files, and a local build survives a database restart."""
    shared, local = folder / "shared", folder / "local"
    for place in (shared, local):
        place.mkdir()
    watchdog = watchdog_of(shared)
    background = Background(folder / "jobs", now_ms=lambda: 0, kill_patience=QUICK)
    tool, calls = kept_shell(watchdog, background), [Call(workspace=shared), Call(workspace=local)]
    # The daemon has cleared its environment; each command ends when the test says so.
    command = "setsid env -i sleep 1000 & echo begun; until [ -e ready ]; do sleep 0.05; done; echo built"
    running = [asyncio.create_task(tool.run({"command": command}, call)) for call in calls]
    for call in calls:
        await call.hears("begun")
    # What isn't known to be local is killed, whoever started it.
    other = await asyncio.create_subprocess_exec(
        *("sleep", "1000"), env={**watchdog.environment, "HOLDFAST_RUN": "run:call:nonce:foreground"}
    )
    async with BackgroundTasks() as tasks, watched_tools(watchdog, tasks):
        await other.wait()
        await until(lambda: watchdog.has_killed_since(0.1))
        for place in (shared, local):
            (place / "ready").touch()
        on_volume, here = await asyncio.gather(*running)
    await background.close()
    assert (here.ending, here.ok) == ("finished", True), here.text
    assert "built" in here.text
    assert on_volume.ending == "killed", on_volume.text
    assert "couldn't reach the shared database in time" in on_volume.text
