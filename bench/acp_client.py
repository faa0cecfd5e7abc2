"""ACP's official TypeScript package against `holdfast acp`, which is killed while an answer is written.

python bench/acp_client.py CLIENTS_DIR. CLIENTS_DIR is where this was run: `npm i --prefix DIR
@agentclientprotocol/sdk`.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from ag_ui_client import CONFIG, KEY, scripted
from holdfast.chaos import ChaosServer


async def tried(clients: Path, home: Path) -> int:
    """Run the editor; returns its exit code."""
    (home / "work" / "build").mkdir(parents=True)
    script = clients / "acp_client.mjs"
    await asyncio.to_thread(shutil.copy, Path(__file__).with_name(script.name), script)
    async with ChaosServer(choose=scripted) as chaos:
        config = home / "config.toml"
        text = CONFIG.format(port=0, data=home / "data", key=KEY, url=chaos.base_url)
        await asyncio.to_thread(config.write_text, text)
        config.chmod(0o600)
        program = str(Path(sys.executable).with_name("holdfast"))
        command = ("node", str(script), program, str(config), str(home / "work"))
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
