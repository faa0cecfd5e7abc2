"""The least that a server between a client and a model can do: the same HTTP client and uvicorn, no more.

python bench/forwarder.py MODEL_URL. The header `x-bench` of a request is handed on, and the bytes of the
answer are sent as they come.
"""

import asyncio
import socket
import sys
from typing import Any

import aiohttp
import uvicorn

BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'


def forwarding(url: str) -> Any:
    """The application."""
    session: list[aiohttp.ClientSession] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        if not session:
            connector = aiohttp.TCPConnector(limit=0)
            session.append(
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
            )
        what = dict(scope["headers"]).get(b"x-bench", b"burst 50").decode()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        asked = session[0].post(f"{url}/v1/chat/completions", data=BODY, headers={"x-bench": what})
        async with asked as answer:
            while piece := await answer.content.readany():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def serve(url: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(forwarding(url), log_config=None, access_log=False, lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("x", loop="uvloop").get_loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
