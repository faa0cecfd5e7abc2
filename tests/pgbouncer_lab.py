"""A real PgBouncer in front of the tests' Postgres."""

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ports import reserved_port
from postgres_lab import PostgresMissing, PostgresServer, as_another_user

START_S = 30.0
PoolMode = Literal["session", "transaction"]

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server_port} user=holdfast
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 8
max_client_conn = 200
logfile = {folder}/log
"""


@contextmanager
def pgbouncer(server: PostgresServer, mode: PoolMode) -> Generator[int]:
    """The port of a pooler in front of the server."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise PostgresMissing("PgBouncer is not installed: run scripts/system-packages")
    folder, port = Path(tempfile.mkdtemp(prefix="holdfast-pgbouncer-")), reserved_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        _SETTINGS.format(server_port=server.port, port=port, mode=mode, folder=folder), encoding="utf-8"
    )
    running = subprocess.Popen([*as_another_user(folder), program, "-q", str(settings)], cwd=folder)
    try:
        _wait_until_ready(port)
        yield port
    finally:
        running.kill()
        running.wait()
        shutil.rmtree(folder)


def _wait_until_ready(port: int) -> None:
    pause = threading.Event()
    for _ in range(int(START_S / 0.01)):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            pause.wait(0.01)
        else:
            return
    raise AssertionError(f"PgBouncer did not start within {START_S:g} s")
