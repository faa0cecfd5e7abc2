"""A real S3 server for tests: rclone serves a folder, where each bucket is a folder and each object a file.

`S3Faults` is a proxy in front of it that loses, delays and refuses requests on command.
"""

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Literal, Self

from msgspec.structs import replace
from obstore.store import S3Store

from holdfast.config.fields import Secret
from holdfast.config.server import BlobStoreSettings
from holdfast.features.postgres.blobs import PROBE
from holdfast.features.postgres.objects import BlobBucket, ObjectPatience, open_objects

START_S = 60.0
KEY_ID, KEY = "holdfast-tests", "a-secret-of-the-tests"
NAME = "bucket-of-tests"
# Waits that nobody reaches, short pauses between attempts.
PATIENT = ObjectPatience(answer_s=60.0, connect_s=20.0, retry_first_s=0.01, retry_last_s=0.02)
# rclone ends when the other end of this shell's standard input is closed, so also if the tests are killed.
_SUPERVISOR = '"$@" & pid=$!; read -r line; kill -KILL "$pid"; wait "$pid"'
_STAYS = "stays"
_LISTENS = re.compile(r"s3 server on \[http://127\.0\.0\.1:(\d+)/\]")


@dataclass
class S3Server:
    """A running server with one bucket, of which each test uses a part."""

    folder: Path
    port: int

    def bucket(self, *, port: int = 0, key: str = KEY) -> BlobStoreSettings:
        """A part of the bucket without objects, if wanted at a proxy's port or with another key."""
        bucket = BlobStoreSettings(
            bucket=NAME,
            endpoint=f"http://127.0.0.1:{self.port}",
            prefix=f"part-{token_hex(6)}/of a test/",
            access_key_id=Secret(KEY_ID),
            secret_access_key=Secret(KEY),
        )
        # rclone removes a folder with its last object, and fails whoever stores the next one at that moment.
        client = S3Store(
            NAME,
            prefix=bucket.prefix,
            client_options={"allow_http": True},
            config={
                "endpoint": bucket.endpoint,
                "region": bucket.region,
                "access_key_id": KEY_ID,
                "secret_access_key": KEY,
            },
        )
        client.put(_STAYS, b"stays", use_multipart=False)
        return replace(
            bucket, endpoint=f"http://127.0.0.1:{port or self.port}", secret_access_key=Secret(key)
        )

    def keys(self, bucket: BlobStoreSettings) -> set[str]:
        """The objects with blobs, under the names that the database knows."""
        return {key for key in self.everything(bucket) if not key.startswith(PROBE)}

    def everything(self, bucket: BlobStoreSettings) -> set[str]:
        """All objects, also those that a store only tries the bucket with."""
        return {file.name for file in self._folder(bucket).iterdir()} - {_STAYS}

    def damage(self, bucket: BlobStoreSettings, key: str) -> None:
        """Change the bytes of an object, but not its size."""
        path = self._folder(bucket) / key
        path.write_bytes(path.read_bytes().translate(bytes(byte ^ 1 for byte in range(256))))

    def _folder(self, bucket: BlobStoreSettings) -> Path:
        return self.folder / bucket.bucket / bucket.prefix


def objects_in(bucket: BlobStoreSettings, patience: ObjectPatience = PATIENT) -> BlobBucket:
    """The bucket as our program uses it."""
    return open_objects(bucket, patience=patience)


@contextmanager
def s3_server() -> Generator[S3Server]:
    """The server for one pytest process."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-s3-"))
    (folder / "data" / NAME).mkdir(parents=True)
    program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or "rclone"
    command = [program, "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", f"{KEY_ID},{KEY}"]
    command += ["--config", "", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            ["sh", "-c", _SUPERVISOR, "sh", *command], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    try:
        yield S3Server(folder / "data", _port(running, folder / "log"))
    finally:
        running.communicate(b"\n")
        shutil.rmtree(folder)


def _port(running: subprocess.Popen[bytes], log: Path) -> int:
    pause = threading.Event()
    for _ in range(int(START_S / 0.01)):
        if (found := _LISTENS.search(log.read_text("utf-8"))) is not None:
            return int(found[1])
        assert running.poll() is None, log.read_text("utf-8")
        pause.wait(0.01)
    raise AssertionError(f"rclone did not start within {START_S:g} s: {log.read_text('utf-8')}")


@dataclass
class Fault:
    """What happens to the next request with this method."""

    method: Literal["PUT", "GET", "HEAD", "DELETE"]
    answer: str = ""  # a status and a code, such as "503 SlowDown", instead of the server's answer
    cut_request_after: int = -1  # bytes of the body, then the connection is reset
    cut_answer_after: int = -1
    gate: asyncio.Event | None = None  # the server's answer waits for this
    met: asyncio.Event = field(default_factory=asyncio.Event)  # the fault has its request


class S3Faults:
    """A proxy in front of the server; an async context manager. Each connection is for one request."""

    def __init__(self, server: S3Server) -> None:
        self._server_port = server.port
        self._listening: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.faults: deque[Fault] = deque()  # for requests in this order; not for the probes of a store
        self.refuses = ""  # the answer to everything, such as "503 SlowDown"
        self.requests: list[str] = []  # the methods

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listening is not None
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listening.wait_closed()

    @property
    def port(self) -> int:
        assert self._listening is not None
        return int(self._listening.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # of a client that gave up, which the tests see at the other end
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method = head.partition(b" ")[0].decode()
        self.requests.append(method)
        fault = self._fault(method, head)
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        left = int(length[1]) if length else 0
        if fault.cut_request_after >= 0:
            await reader.readexactly(fault.cut_request_after)
            fault.met.set()
            writer.transport.abort()
            return
        body = await reader.readexactly(left)
        if fault.answer:
            answer = _refusal(fault.answer)
        else:
            answer = await self._answer(head, body)
        fault.met.set()
        if fault.gate is not None:
            await fault.gate.wait()
        if fault.cut_answer_after >= 0:
            at = answer.index(b"\r\n\r\n") + 4 + fault.cut_answer_after
            writer.write(answer[:at])
            await writer.drain()
            writer.transport.abort()
            return
        writer.write(answer)
        await writer.drain()

    def _fault(self, method: str, head: bytes) -> Fault:
        if self.faults and self.faults[0].method == method and PROBE.encode() not in head:
            return self.faults.popleft()
        return Fault("GET", answer=self.refuses)

    async def _answer(self, head: bytes, body: bytes) -> bytes:
        """The server's own answer, whole."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            writer.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


def _refusal(answer: str) -> bytes:
    status, code = answer.split(" ")
    body = f"<Error><Code>{code}</Code></Error>".encode()
    return (
        b"HTTP/1.1 %s X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        % (
            status.encode(),
            len(body),
        )
        + body
    )
