"""`holdfast serve` as a process of its own, for a browser to visit."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.chaos import ChaosServer

CONFIG = """
[server]
port = {port}
data_dir = "{folder}/data"
{keys}
[agent]
title_target = "off"
workspace = "{folder}/work"
[[approvals.rules]]
allow = "shell"
argv = ["sleep"]
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-test-of-a-key"
"""
OPEN = "api_keys = []"


def configure(folder: Path, chaos: ChaosServer, *, port: int = 0, keys: str = OPEN) -> None:
    (folder / "work").mkdir(exist_ok=True)
    text = CONFIG.format(folder=folder, url=chaos.base_url, port=port, keys=keys)
    (folder / "holdfast.toml").write_text(text)


@asynccontextmanager
async def process(folder: Path, *, end_with: signal.Signals = signal.SIGKILL) -> AsyncGenerator[str]:
    """`holdfast serve`; the address that it prints for a browser."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve", "--config", str(folder / "holdfast.toml")),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    assert started.stdout is not None
    try:
        while not (line := (await started.stdout.readline()).decode()).startswith("Open "):
            assert line, "the server did not start"
        yield line.split()[1]
    finally:
        started.send_signal(end_with)
        await started.communicate()
