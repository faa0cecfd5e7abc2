"""The CPU time of runs with and without telemetry, by two servers that take turns.

PYTHONPATH=tests .venv/bin/python bench/telemetry.py [--runs 100] [--rounds 20]
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WORDS = [Say(f"word {nth} ") for nth in range(30)]


def answer(request: SeenRequest) -> Script:
    """A tool call, and then an answer in 30 pieces."""
    is_second = "tool_call_id" in str((request.body or {}).get("messages"))
    return WORDS if is_second else [CallTool("read_file", {"path": "a.txt"})]


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


async def measure(runs: int, rounds: int) -> None:
    """Print the CPU time of a run at both servers, and the difference."""
    programs: Any = import_module("runner.program")
    collecting: Any = import_module("features.telemetry.collector")
    spent: dict[str, list[float]] = {"off": [], "on": []}
    async with AsyncExitStack() as stack:
        chaos = await stack.enter_async_context(ChaosServer(choose=answer))
        collector = await stack.enter_async_context(collecting.collector())
        servers: dict[str, Any] = {}
        for name in spent:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
            programs.configure(folder, chaos.base_url, sandbox="off")
            (folder / "work" / "a.txt").write_text("a", encoding="utf-8")
            if name == "on":
                with (folder / "holdfast.toml").open("a", encoding="utf-8") as file:
                    file.write(f'[telemetry]\nendpoint = "{collector.url}"\n')
            servers[name] = await stack.enter_async_context(programs.program(folder))
        await collector.until_metrics()
        for nth in range(rounds + 1):
            for name, server in servers.items():
                before = cpu_s(server.process.pid)
                for _ in range(runs):
                    await server.events(await server.start("hi"))
                if nth:  # the first round warms up
                    spent[name].append((cpu_s(server.process.pid) - before) / runs * 1000)
    off, on = statistics.fmean(spent["off"]), statistics.fmean(spent["on"])
    print(f"off {off:.2f} ms, on {on:.2f} ms of CPU for each run: {100 * (on / off - 1):+.1f} %")
    print(f"rounds, off: {', '.join(f'{one:.2f}' for one in spent['off'])}")
    print(f"rounds, on:  {', '.join(f'{one:.2f}' for one in spent['on'])}")
    print(f"{len(collector.spans)} spans, {len(collector.spans) / (runs * (rounds + 1)):.1f} for each run")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.runs, arguments.rounds))
