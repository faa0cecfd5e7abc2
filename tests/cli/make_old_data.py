"""Writes the data directory that `old_data/` has of a release; run it once, with the code of that release.

PYTHONPATH=tests .venv/bin/python -m cli.make_old_data 0.1.0
"""

import asyncio
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say, Think
from runner.program import Program, configure, program

OLD_DATA = Path(__file__).with_name("old_data")


async def shown_by(server: Program) -> dict[str, Any]:
    """The parts of the data that every later version shows in the same way."""
    shown: dict[str, Any] = {}
    for session in ("s-count", "s-plan", "s-fork"):
        _, page = await server.call("GET", f"/api/sessions/{session}/messages")
        shown[session] = [[one["seq"], one["kind"], str(one.get("content", ""))[:60]] for one in page["data"]]
    _, sessions = await server.call("GET", "/api/sessions")
    shown["sessions"] = sorted([one["id"], one["title"], one["pinned"]] for one in sessions["data"])
    _, triggers = await server.call("GET", "/api/triggers")
    shown["triggers"] = [[one["name"], one["prompt"]] for one in triggers["data"]]
    _, memory = await server.call("GET", "/v1/memory")
    shown["memory"] = "likes tea" in str(memory)
    return shown


async def write(folder: Path) -> dict[str, Any]:
    """Use the server as people do; what it then shows."""
    scripts = (
        [Think("hm"), Say("I'll look. "), CallTool("shell", {"command": "seq 1 9000"})],
        [Say("It counts.")],
        [Say("Second answer.")],
        [CallTool("update_plan", {"steps": [{"text": "one", "status": "active"}]}), Say("Planned. ")],
        [Say("Done.")],
    )
    async with ChaosServer(*scripts) as chaos:
        configure(folder, chaos.base_url, sandbox="off")
        async with program(folder) as server:
            for text, session in (("count", "s-count"), ("again", "s-count"), ("plan", "s-plan")):
                run_id = await server.start(text, session_id=session)
                await server.events(run_id)
            await server.call("PATCH", "/api/sessions/s-count", {"title": "Counting", "pinned": True})
            await server.call("POST", "/api/sessions/s-count/fork", {"id": "s-fork"})
            trigger = {"name": "nightly", "prompt": "report", "cron": "0 3 * * *", "zone": "UTC"}
            status, made = await server.call("POST", "/api/triggers", trigger)
            assert status == 201, made
            status, made = await server.call("PUT", "/v1/memory", {"text": "likes tea", "scope": "user"})
            assert status == 200, made
            shown = await shown_by(server)
            server.process.send_signal(15)
            await server.ended()
    return shown


def main(version: str) -> None:
    """Write the archive and what it shows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = asyncio.run(write(folder))
        OLD_DATA.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
            for path in ("holdfast.db", "blobs"):
                archive.add(folder / "data" / path, path)
        (OLD_DATA / f"{version}.tar.xz").write_bytes(buffer.getvalue())
        (OLD_DATA / f"{version}.json").write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
