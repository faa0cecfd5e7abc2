"""A real Postgres for tests: one server for each pytest process, and a new database for each test.

`TEST_POSTGRES=postgresql://user@host/name` makes the tests use another server; its user must be
allowed to create databases. Tests that stop or restart the server need our own, see `PostgresServer.ours`.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from fakes.tcp_proxy import TcpProxy
from ports import reserved_port

START_S = 60.0
STOP_S = 30.0

# Postgres ends when the other end of this shell's standard input is closed, so also if the tests are killed.
# The line that it reads is the signal to end with; SIGQUIT if there is none.
_SUPERVISOR = '"$@" & pid=$!; read -r signal; kill -"${signal:-QUIT}" "$pid"; wait "$pid"'
_SIGNALS = {"smart": "TERM", "fast": "INT", "immediate": "QUIT"}
_FAST = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "max_wal_size": "512MB",
    "autovacuum": "off",
    "jit": "off",
    "log_destination": "stderr",
    "timezone": "UTC",
}

# Making a database and its tables takes most of a second. Truncating a table makes new files for it and its
# indexes, so only a large one is worth that; most are empty, or have a few rows.
_EMPTY = """
DO $$
DECLARE relation record;
BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid();
  FOR relation IN
    SELECT oid::regclass AS name, oid, relkind, pg_table_size(oid) AS bytes FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S') AND relname <> 'store'
      AND pg_relation_size(oid) > 0
  LOOP
    IF relation.relkind = 'S' THEN
      PERFORM setval(relation.oid, 1, false);
    ELSIF relation.bytes < 500000 THEN
      EXECUTE 'DELETE FROM ' || relation.name;
    ELSE
      EXECUTE 'TRUNCATE ' || relation.name || ' CASCADE';
    END IF;
  END LOOP;
END
$$
"""

StopMode = Literal["smart", "fast", "immediate"]


class PostgresMissing(Exception):
    """There is no Postgres to test with; the text says what to do."""


def binaries() -> Path:
    """The folder with the server programs of the newest Postgres on this machine."""
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version, reverse=True):
        return found.parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).parent
    raise PostgresMissing(
        "Postgres is not installed: run scripts/system-packages, or set TEST_POSTGRES to a server"
    )


def _psql() -> str:
    """The client program itself: Debian's `psql` is a wrapper in Perl that costs more than the statement."""
    try:
        return str(binaries() / "psql")
    except PostgresMissing:
        return "psql"


def _version(program: Path) -> float:
    return float(program.parent.parent.name)


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for ourselves. Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresMissing("Postgres refuses to run as root, and there is no user `postgres` or `nobody`")


def _as_user(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def as_another_user(folder: Path) -> list[str]:
    """The beginning of a command for a program that refuses to run as root; the folder becomes its own."""
    user = _other_user()
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
    return _as_user(user)


@dataclass
class PostgresServer:
    """One running server; `dsn` names its administrative database."""

    dsn: str
    folder: Path | None = None  # of a server that these tests started
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    _supervisor: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _made: list[str] = field(default_factory=list[str], repr=False)
    _emptied: list[str] = field(default_factory=list[str], repr=False)

    @property
    def ours(self) -> bool:
        """Whether these tests started the server, and so may stop it."""
        return self.folder is not None

    @property
    def port(self) -> int:
        return urlsplit(self.dsn).port or 5432

    @property
    def log(self) -> str:
        """What our own server has logged."""
        assert self.folder is not None
        return (self.folder / "log").read_text("utf-8", errors="replace")

    def start(self) -> None:
        """Start our own server, and return when it accepts connections."""
        assert self.folder is not None
        assert self._supervisor is None
        options = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        postgres = [str(binaries() / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self._supervisor = subprocess.Popen(
                [*_as_user(_other_user()), "sh", "-c", _SUPERVISOR, "sh", *postgres],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self._wait_until_ready()

    def stop(self, mode: StopMode = "fast") -> None:
        """End our own server; `immediate` is a crash as far as the database is concerned."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        supervisor.communicate(f"{_SIGNALS[mode]}\n".encode(), timeout=STOP_S)

    def restart(self, mode: StopMode = "immediate") -> None:
        """Stop and start again, on the same port."""
        self.stop(mode)
        self.start()

    def signal(self, number: int) -> None:
        """Send a signal to the postmaster, such as SIGSTOP."""
        assert self.folder is not None
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text("utf-8").split("\n", 1)[0]), number)

    def close(self) -> None:
        """End our own server and remove its files; on another's server, drop the databases we made."""
        if self.folder is None:
            for name in list(self._made):
                self.drop(name)
            return
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def database(self, template: str = "template1") -> str:
        """A new database like the template; returns its DSN."""
        name = f"holdfast_{token_hex(6)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        self._made.append(name)
        return self.dsn_of(name)

    def borrow(self) -> str:
        """A database without any data; its tables may be there already. `give_back` makes it free again."""
        return self._emptied.pop() if self._emptied else self.database()

    def give_back(self, dsn: str) -> None:
        """Empty a database for the next test, whoever is still connected to it."""
        self.sql(_EMPTY, dsn=dsn)
        self._emptied.append(dsn)

    def drop(self, name_or_dsn: str) -> None:
        """Drop a database that `database` made, whoever is still connected to it."""
        name = urlsplit(name_or_dsn).path.lstrip("/") if "://" in name_or_dsn else name_or_dsn
        self._made.remove(name)
        self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def dsn_of(self, name: str, *, port: int = 0, host: str = "") -> str:
        """The DSN of a database of this server, if wanted through another address, such as a proxy's."""
        parts = urlsplit(self.dsn)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        place = f"{host or parts.hostname}:{port or self.port}"
        return urlunsplit(parts._replace(netloc=user + place, path=f"/{name}"))

    def through(self, dsn: str, *, port: int) -> str:
        """The same database through a proxy on a loopback port."""
        return self.dsn_of(urlsplit(dsn).path.lstrip("/"), port=port, host="127.0.0.1")

    def sql(self, statement: str, *, dsn: str = "") -> str:
        """Run one statement and return its rows, one a line, columns divided by `|`."""
        psql = _psql()
        done = subprocess.run(
            [psql, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn or self.dsn, "-c", statement],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        assert done.returncode == 0, f"{statement}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def _wait_until_ready(self) -> None:
        """The postmaster says in the eighth line of its pid file that it accepts connections."""
        assert self.folder is not None
        assert self._supervisor is not None
        pause = threading.Event()
        for _ in range(int(START_S / 0.005)):
            try:
                lines = (self.folder / "data" / "postmaster.pid").read_text("utf-8").split("\n")
            except FileNotFoundError:
                lines = []
            if len(lines) > 7 and lines[7].strip() == "ready":
                return
            # The shell goes on waiting for its line if Postgres could not start.
            assert self._supervisor.poll() is None, self.log
            pause.wait(0.005)
        raise AssertionError(f"Postgres did not start within {START_S:g} s:\n{self.log}")


def own_server(**settings: str) -> PostgresServer:
    """Start a Postgres of our own on a free port; whoever calls this closes it.

    Nothing is fsynced unless the settings ask for it.
    """
    user = _other_user()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    port = reserved_port()
    wanted = _SETTINGS | _FAST | {"port": str(port), "unix_socket_directories": str(folder)} | settings
    server = PostgresServer(f"postgresql://holdfast@127.0.0.1:{port}/postgres", folder, wanted)
    try:
        made = subprocess.run(
            [
                *_as_user(user),
                str(binaries() / "initdb"),
                *("-D", str(folder / "data"), "-U", "holdfast", "-A", "trust"),
                *("-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
            cwd=folder,
        )
        assert made.returncode == 0, made.stderr
        server.start()
    except BaseException:
        server.close()
        raise
    return server


@asynccontextmanager
async def proxied(server: PostgresServer, dsn: str) -> AsyncGenerator[tuple[TcpProxy, str]]:
    """A proxy in front of the server that breaks connections on command, and the DSN that goes through it."""
    parts = urlsplit(dsn)
    async with TcpProxy(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        yield proxy, server.through(dsn, port=proxy.port)


@contextmanager
def postgres_server() -> Generator[PostgresServer]:
    """The server for one pytest process: another's if TEST_POSTGRES names it, else our own."""
    named = os.environ.get("TEST_POSTGRES", "")  # noqa: TID251  # this is the edge of the tests
    server = PostgresServer(named) if named else own_server()
    try:
        yield server
    finally:
        server.close()
