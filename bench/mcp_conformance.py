"""Runs the official MCP conformance kit against Holdfast's MCP client: `python bench/mcp_conformance.py`.

The kit is installed with npm into a cache folder. Each scenario starts a server of the kit and then
`mcp_conformance_driver.py`, which uses the same code as `holdfast serve` and `holdfast mcp-sign-in`. The exit
code is 1 if a scenario fails that is not left out below. With `--server`, the other half
(`mcp_conformance_server.py`) runs instead.
"""

import argparse
import asyncio
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from client_environments import ENVIRONMENTS, NODE, folder_of, install

HERE = Path(__file__).parent
KIT = "mcp-conformance"
PARALLEL = 2
SCENARIO_S = 90
LEFT_OUT = {
    "auth/client-credentials-jwt": "an extension: machine-to-machine sign-in with a signed key",
    "auth/client-credentials-basic": "an extension: machine-to-machine sign-in; use headers instead",
    "auth/cross-app-access-complete-flow": "an extension: needs a company's identity provider",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one scenario."""

    scenario: str
    state: str
    note: str = ""


def default_cache() -> Path:
    """Where the kit is installed unless told otherwise."""
    return Path.home() / ".cache" / "holdfast-bench"


async def output_of(*command: str, cwd: Path, within_s: float) -> tuple[int, str]:
    """Run a program to its end; its exit code and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(within_s):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 124, f"not done within {within_s:g} s"
    return process.returncode or 0, printed.decode("utf-8", "replace")


async def scenarios_of(kit: str, cache: Path) -> list[tuple[str, str]]:
    """The kit's client scenarios, each with the revisions that it belongs to."""
    _, printed = await output_of(str(NODE), kit, "list", "--client", cwd=cache, within_s=60)
    return re.findall(r"^\s+- (\S+) \[([^\]]*)\]", printed, re.MULTILINE)


async def tried(kit: str, scenario: str, *, cache: Path) -> Row:
    """Run one scenario."""
    driver = shlex.join([sys.executable, str(HERE / "mcp_conformance_driver.py")])
    command = [str(NODE), kit, "client", "--command", driver, "--scenario", scenario]
    command += ["--output-dir", str(cache / "results"), "--timeout", str(1000 * SCENARIO_S)]
    code, printed = await output_of(*command, cwd=cache, within_s=SCENARIO_S + 30)
    summary = re.search(r"Passed: .*", printed)
    note = summary[0] if summary else printed.strip()[-200:]
    return Row(scenario, "failed" if code else "passed", note)


async def run(cache: Path, only: str) -> int:
    """Run all scenarios and print the table; the exit code."""
    await install(cache, KIT)
    cache = folder_of(cache, KIT)
    kit = str(cache / "node_modules/@modelcontextprotocol/conformance/dist/index.js")
    found = await scenarios_of(kit, cache)
    if not found:
        sys.exit("the kit lists no scenarios")
    places = asyncio.Semaphore(PARALLEL)

    async def one(scenario: str) -> Row:
        if scenario in LEFT_OUT:
            return Row(scenario, "left out", LEFT_OUT[scenario])
        async with places:
            return await tried(kit, scenario, cache=cache)

    rows = await asyncio.gather(*(one(name) for name, _ in found if only in name))
    revisions = dict(found)
    for row in rows:
        print(f"{row.scenario:42} {revisions[row.scenario]:24} {row.state:9} {row.note}")
    counts = {state: sum(row.state == state for row in rows) for state in ("passed", "failed", "left out")}
    print(
        f"\n{ENVIRONMENTS[KIT].versions}: " + ", ".join(f"{count} {state}" for state, count in counts.items())
    )
    return 1 if counts["failed"] else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where the kit is installed")
    parser.add_argument("--only", default="", help="run the scenarios whose names contain this")
    parser.add_argument("--server", action="store_true", help="test Holdfast's MCP server instead")
    wanted = parser.parse_args()
    if wanted.server:
        asyncio.run(install(wanted.cache, KIT))
        other, kit = HERE / "mcp_conformance_server.py", folder_of(wanted.cache, KIT)
        return subprocess.call([sys.executable, str(other), str(kit), "--only", wanted.only])
    return asyncio.run(run(wanted.cache, wanted.only))


if __name__ == "__main__":
    sys.exit(main())
