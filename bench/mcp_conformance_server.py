"""The official conformance kit against this server's Model Context Protocol transport.

python bench/mcp_conformance.py --server installs the kit and runs this; or python
bench/mcp_conformance_server.py KIT_DIR, where KIT_DIR is where `npm i --prefix KIT_DIR
@modelcontextprotocol/conformance` was run. Node is the one that the development packages bring.

The kit calls example tools, resources and prompts by name. `ExampleService` has them, behind the same
transport, access checks and streams as the agent's own service. So the kit covers the transport: versions,
sessions, headers, streams and the form of messages. It does not cover what the agent's own tools do, nor its
tasks and its cursors after a crash; tests/features/mcp_server and bench/mcp_client_kill.py do.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.routing import Router

from client_environments import NODE
from holdfast.api.operations import OPERATIONS
from holdfast.features.mcp_server.transport import McpRoutes
from holdfast.host.http_server import Application, serving
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.redaction import NO_SECRETS
from holdfast.server.access.auth import KeyRing, SignIns
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.middleware import Access, AccessMiddleware
from holdfast.server.access.tickets import Tickets
from holdfast.server.options import ServerOptions
from holdfast.server.routing import api_routes
from holdfast.server.streams.stream import Streams
from mcp_examples import ExampleService

SCENARIO = re.compile(r"- ([a-z0-9-]+) \[(.*)\]")
OPTIONAL = re.compile("extension")  # the kit marks them so
# These try what a tool does, not the transport; tests/features/mcp_server tries the agent's own tools.
LEFT_OUT = {
    "input-required-result-": "needs example tools that keep a state of their own",
    "http-custom-header-server-validation": "no tool of this server asks for headers of its own",
}
WITHIN_S = 60.0


@asynccontextmanager
async def example_server() -> AsyncGenerator[str]:
    """The transport with the examples behind it, on a loopback port that needs no key."""
    options, streams, clock, store = ServerOptions(), Streams(), SystemClock(), MemoryStore(NO_SECRETS)
    # It has what the transport calls.
    routes = McpRoutes(ExampleService(), streams, options.limits)  # pyright: ignore[reportArgumentType]
    operations = [one for one in OPERATIONS if one.endpoint.startswith("mcp.")]
    router = Router(api_routes(operations, {"mcp.post": routes.post, "mcp.get": routes.get}))
    keys = KeyRing(options.keys, AddedKeys(store, clock))
    access = Access(keys, SignIns(store, clock, keys), Tickets(clock), NO_SECRETS)

    async def drain() -> None:
        """Nothing is under way."""

    app = AccessMiddleware(router, options, access, drain=drain)
    async with serving(Application(app, streams, options.limits)) as url:
        yield f"{url}/mcp"


async def printed(kit: Path, *words: str) -> tuple[int, str]:
    """The exit code of the kit and what it prints."""
    node = NODE.parent
    environment = {"PATH": f"{node}{os.pathsep}{os.defpath}", "HOME": str(kit)}
    program = str(kit / "node_modules/.bin/conformance")
    process = await asyncio.create_subprocess_exec(
        program, *words, env=environment, cwd=kit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1, "no end within a minute"
    return process.returncode or 0, said.decode(errors="replace")


async def tried(kit: Path, *, only: str, verbose: bool) -> int:
    """Try every scenario; returns how many failed that are not optional."""
    _, listed = await printed(kit, "list", "--server")
    failed = 0
    async with example_server() as url:
        for name, about in SCENARIO.findall(listed):
            if only and only not in name:
                continue
            why = next((why for part, why in LEFT_OUT.items() if name.startswith(part)), "")
            if why or OPTIONAL.search(about):
                print(f"{name:48} {'left out':10} {why or 'optional'}", flush=True)
                continue
            for version in [one for one in about.split(",") if one >= "2025-11-25"]:
                words = ("server", "--url", url, "--scenario", name, "--spec-version", version)
                code, said = await printed(kit, *words)
                failed += code != 0
                print(f"{name:48} {version:10} {'pass' if code == 0 else 'FAIL'}", flush=True)
                if code and verbose:
                    print(said)
    print(f"{failed} failed")
    return failed


def main() -> None:
    """Run it with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kit", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of scenarios")
    parser.add_argument("--verbose", action="store_true", help="print what the kit says of a failure")
    given = parser.parse_args()
    sys.exit(asyncio.run(tried(given.kit.resolve(), only=given.only, verbose=given.verbose)) != 0)


if __name__ == "__main__":
    main()
