"""The least that a server between a client and a model can do: the same HTTP client and uvicorn, no more.

python bench/forwarder.py MODEL_URL [FILE]. The header `x-bench` of a request is handed on, and the bytes of
the answer are sent as they come. With a file, which becomes a SQLite database, each piece is on disk before
it is sent: the least that a server can do that loses nothing.
"""

import asyncio
import queue
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

import aiohttp
import apsw
import uvicorn

BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'


class Saving:
    """One thread, one table, and as many pieces a commit as are waiting."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Sequence[bytes], asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def save(self, *pieces: bytes) -> None:
        """Return once they are on disk."""
        saved = self._loop.create_future()
        self._queue.put((pieces, saved))
        await saved

    def _run(self) -> None:
        db = apsw.Connection(self._path)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "FULL")
        db.execute("CREATE TABLE pieces (id INTEGER PRIMARY KEY, piece BLOB NOT NULL) STRICT")
        while True:
            jobs = [self._queue.get()]
            while not self._queue.empty():
                jobs.append(self._queue.get())
            rows = [(piece,) for pieces, _ in jobs for piece in pieces]
            with db:
                db.executemany("INSERT INTO pieces (piece) VALUES (?)", rows)
            self._loop.call_soon_threadsafe(_end, [saved for _, saved in jobs])


def _end(futures: Sequence[asyncio.Future[None]]) -> None:
    for saved in futures:
        saved.set_result(None)


def forwarding(url: str, path: str) -> Any:
    """The application."""
    session: list[aiohttp.ClientSession] = []
    saving: list[Saving] = []

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
            if path:
                saving.append(Saving(path))
        what = dict(scope["headers"]).get(b"x-bench", b"burst 50").decode()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        asked = session[0].post(f"{url}/v1/chat/completions", data=BODY, headers={"x-bench": what})
        async with asked as answer:
            while piece := await answer.content.readany():
                if saving:
                    await saving[0].save(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def listen(app: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listening])


def serve(app: Any) -> None:
    with asyncio.Runner(loop_factory=uvicorn.Config("x", loop="uvloop").get_loop_factory()) as runner:
        runner.run(listen(app))


if __name__ == "__main__":
    serve(forwarding(sys.argv[1], (*sys.argv, "")[2]))
