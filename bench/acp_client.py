"""ACP's official TypeScript package against `holdfast acp`, which is killed while an answer is written.

Each frame of the agent is checked against the JSON schema in that package.

python bench/acp_client.py CLIENTS_DIR. CLIENTS_DIR is where this was run: `npm i --prefix DIR
@agentclientprotocol/sdk ajv`.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ag_ui_client import CONFIG, KEY, scripted
from holdfast.chaos import CallTool, ChaosServer, Say, SeenRequest, Step


async def tried(clients: Path, home: Path) -> int:
    """Run the editor; returns its exit code."""
    (home / "work" / "build").mkdir(parents=True)
    script = clients / "acp_client.mjs"
    await asyncio.to_thread(shutil.copy, Path(__file__).with_name(script.name), script)
    server = Path(__file__).parents[1] / "tests" / "tools" / "mcp" / "servers" / "raw.py"

    def chosen(request: SeenRequest) -> Sequence[Step]:
        body: Any = request.body
        messages: list[dict[str, Any]] = body["messages"]
        people = [one for one in messages if one.get("role") == "user"]
        said = people[-1] if people else dict[str, Any]()
        calls = {
            "echo": CallTool("mcp__raw__echo", {"text": "hello"}),
            "write": CallTool("write_file", {"path": "new.txt", "content": "new text"}),
        }
        call = calls.get(said.get("content", ""))
        has_result = body["messages"][-1].get("role") == "tool"
        return [Say("Done.")] if call and has_result else [call] if call else scripted(request)

    async with ChaosServer(choose=chosen) as chaos:
        config = home / "config.toml"
        text = CONFIG.format(port=0, data=home / "data", key=KEY, url=chaos.base_url)
        await asyncio.to_thread(config.write_text, text)
        config.chmod(0o600)
        program = str(Path(sys.executable).with_name("holdfast"))
        command = ("node", str(script), program, str(config), str(home / "work"), sys.executable, str(server))
        return await (await asyncio.create_subprocess_exec(*command, cwd=home / "work")).wait()


def main() -> None:
    """Run it with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        sys.exit(asyncio.run(tried(given.clients.resolve(), Path(home))))


if __name__ == "__main__":
    main()
