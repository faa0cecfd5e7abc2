"""AG-UI's official client against a real server, which is killed while an answer is written.

python bench/ag_ui_client.py CLIENTS_DIR. CLIENTS_DIR is where `npm i --prefix DIR @ag-ui/client` was run.
"""

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say, SayWords, SeenRequest, Step

KEY = "ag-ui-bench-key-0123456789"
WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty."
)
CONFIG = """\
[server]
port = {port}
data_dir = "{data}"
api_keys = ["{key}"]

[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "upstream-key-0123456789"
"""
KILLED_AT = "begins: reads on while the server is killed"


def scripted(request: SeenRequest) -> Sequence[Step]:
    """An answer by the last message of the user, and by whether its tool has been run."""
    body: Any = request.body
    messages: list[Any] = body["messages"]
    said: str = next((one["content"] for one in reversed(messages) if one.get("role") == "user"), "")
    has_result = messages[-1].get("role") == "tool"
    if "remove" in said:
        return [Say("Removed.")] if has_result else [CallTool("shell", {"command": "rm -r build"})]
    if "colour" in said:
        return [Say("Green it is.")] if has_result else [CallTool("page_color", {"color": "green"})]
    return [SayWords(WORDS, pace_s=0.15)] if "slowly" in said else [Say("Hello.")]


async def started(home: Path, port: int) -> asyncio.subprocess.Process:
    """A server that accepts connections."""
    program = str(Path(sys.executable).with_name("holdfast"))
    environment = {"HOME": str(home), "PATH": os.defpath}
    config = ("serve", "--config", str(home / "config.toml"))
    server = await asyncio.create_subprocess_exec(
        program, *config, cwd=home / "work", env=environment, stdout=subprocess.DEVNULL
    )
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return server


async def tried(clients: Path, home: Path) -> int:
    """Run the client's tasks; returns its exit code."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    (home / "work").mkdir()
    for name in ("ag_ui_client.mjs", "resuming_fetch.mjs"):
        await asyncio.to_thread(shutil.copy, Path(__file__).with_name(name), clients / name)
    async with ChaosServer(choose=scripted) as chaos:
        config = CONFIG.format(port=port, data=home / "data", key=KEY, url=chaos.base_url)
        await asyncio.to_thread((home / "config.toml").write_text, config)
        (home / "config.toml").chmod(0o600)
        server = await started(home, port)
        program = ("node", str(clients / "ag_ui_client.mjs"), f"http://127.0.0.1:{port}", KEY)
        client = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE)
        try:
            assert client.stdout is not None
            async for line in client.stdout:
                print(line.decode().rstrip(), flush=True)
                if line.decode().rstrip() == KILLED_AT:
                    await asyncio.sleep(1.5)
                    server.kill()
                    await server.wait()
                    server = await started(home, port)
            return await client.wait()
        finally:
            server.terminate()
            await server.wait()


def main() -> None:
    """Run it with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        sys.exit(asyncio.run(tried(given.clients.resolve(), Path(home))))


if __name__ == "__main__":
    main()
