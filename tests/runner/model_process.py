"""The campaign's model as a process that can be killed: python -m runner.model_process PORT EFFECTS_PORT."""

import asyncio
import sys

from holdfast.chaos import ChaosServer
from holdfast.chaos.server import ChaosOptions
from runner.campaign_model import Model


async def serve(port: int, effects_port: int) -> None:
    """Serve until killed; a line says that it listens."""
    async with ChaosServer(choose=Model(effects_port), options=ChaosOptions(port=port)) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
