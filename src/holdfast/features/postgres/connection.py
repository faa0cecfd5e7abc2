"""Connections to the database: its address and schema, how connections are used, and what errors mean."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg
from msgspec import Struct, field

from holdfast.features.postgres.queries import Query, migrations, queries
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import (
    JournalError,
    StoreClosed,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnreachable,
)

Row: TypeAlias = Any
Result = TypeVar("Result")

_SETTINGS = {
    "jit": "off",  # compiling costs more than these short queries
    # The server also notices when this process is gone, and stops working for it.
    "client_connection_check_interval": "1s",
    "idle_in_transaction_session_timeout": "5s",
}
# The writer's statements find rows by their keys, however many there are, so planning each one anew gains
# nothing, and a plan from a time when the tables were small must not stay.
_FIXED_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types

# Two appends wanted the same seq, key or lock; the loser looks again.
CONFLICTS = (pg.UniqueViolationError, pg.DeadlockDetectedError, pg.SerializationError)
# The statement may or may not have been committed.
_LOST = (
    pg.PostgresConnectionError,
    pg.InterfaceError,
    pg.InternalClientError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.StatementCompletionUnknownError,
    TimeoutError,
    OSError,
)
_AWAY = (*_LOST, pg.CannotConnectNowError, pg.TooManyConnectionsError, pg.QueryCanceledError)

# Two nodes that start at once take turns. Any number will do, as long as it never changes.
MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(72104653)"
# A program whose newest migration is older than this can't work with the schema that this one leaves.
LOWEST_THAT_MAY_START = 1

_LOCAL = {"localhost", "127.0.0.1", "::1"}
_TLS_MODES = {"require", "verify-ca", "verify-full"}


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, so that the outcome of its statement isn't known."""
    # A ValueError is a parameter that can't be sent, so nothing was sent.
    return isinstance(error, _LOST) and not isinstance(error, ValueError)


def named(error: Exception) -> Exception:
    """The JournalError that says what a database error means; other errors are returned as they are."""
    match error:
        case JournalError():
            return error
        case pg.DiskFullError():
            return StoreFull(f"the database's disk is full: free some space; nothing was lost ({error})")
        case pg.ReadOnlySQLTransactionError() | pg.InsufficientPrivilegeError():
            return StoreReadOnly(
                f"the database doesn't accept writes ({error}): check that it is the primary and that its "
                "user may write"
            )
        case pg.LockNotAvailableError():
            return StoreLocked(f"another process holds a lock in the database: {error}")
        case _ if isinstance(error, _AWAY):
            return StoreUnreachable(f"the database can't be reached ({_reason(error)})")
        case pg.PostgresError():
            return StoreFailed(f"the database refused: {error}")
        case _:
            return error


def _reason(error: Exception) -> str:
    """The error without its number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class DatabaseAddress(Struct):
    """Where the database is, and who connects to it, read from a `postgresql://` URL.

    The library can read such a URL, too. But it looks for password and certificate files each time it
    connects, and that would block the event loop.
    """

    hosts: list[str]
    ports: list[int]
    user: str
    password: str
    database: str
    sslmode: str
    sslrootcert: str | None = None
    target_session_attrs: str = "any"
    has_prepared_statements: bool = False  # of a pooler in between, see Database
    settings: dict[str, str] = field(default_factory=dict[str, str])
    _context: ssl.SSLContext | None = None

    @classmethod
    def parse(cls, dsn: str) -> "DatabaseAddress":
        """Read a URL; raises StoreFailed if it is not one of a database.

        Without `sslmode`, connections are encrypted unless the database is on this machine.
        """
        parts = urlsplit(dsn)
        if parts.scheme not in {"postgresql", "postgres"}:
            raise StoreFailed(f"{parts.scheme or dsn!r} is not the beginning of a postgresql:// address")
        user_info, _, places = parts.netloc.rpartition("@")
        user, _, password = user_info.partition(":")
        options = dict(parse_qsl(parts.query))
        hosts: list[str] = []
        ports: list[int] = []
        for place in (options.pop("host", "") or unquote(places) or "localhost").split(","):
            host, _, port = place.rpartition(":") if _has_port(place) else (place, "", "")
            hosts.append(host.strip("[]"))
            try:
                ports.append(int(port or options.get("port", "5432")))
            except ValueError:
                raise StoreFailed(f"{port!r} in the database's address is not a port") from None
        options.pop("port", None)
        is_local = all(host in _LOCAL or host.startswith("/") for host in hosts)
        user = unquote(user) or options.pop("user", "") or "postgres"
        return cls(
            hosts,
            ports,
            user,
            unquote(password) or options.pop("password", ""),
            unquote(parts.path.lstrip("/")) or options.pop("dbname", "") or user,
            options.pop("sslmode", "disable" if is_local else "require"),
            options.pop("sslrootcert", None),
            options.pop("target_session_attrs", "any" if len(hosts) == 1 else "read-write"),
            options.pop("pooler_prepared_statements", "off") == "on",
            options,
        )

    async def arguments(self) -> dict[str, Any]:
        """Return the arguments of the library's `connect`."""
        if self.sslmode in _TLS_MODES and self._context is None:
            self._context = await asyncio.to_thread(partial(_tls, self.sslmode, self.sslrootcert))
        return {
            "host": self.hosts,
            "port": self.ports,
            "user": self.user,
            "password": self.password,  # never None, which would mean to look for a file
            "database": self.database,
            "ssl": self._context or False,
            "target_session_attrs": self.target_session_attrs,
        }


def _has_port(place: str) -> bool:
    return ":" in place.rpartition("]")[2] and not place.startswith("/")


def _tls(mode: str, root_certificate: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=root_certificate)
    context.check_hostname = mode == "verify-full"
    if mode == "require" and root_certificate is None:
        context.verify_mode = ssl.CERT_NONE
    return context


class Connection:
    """One connection with our queries; it is never closed politely, because that can wait forever."""

    def __init__(self, inner: Any, query_s: float, *, pid: int) -> None:
        self._inner = inner
        self._query_s = query_s
        self.pid = pid  # of its server process; 0 behind a pooler, where it may be another one each time

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer be used."""
        return self._inner.is_closed()

    async def rows(self, name: str, /, **bindings: Any) -> list[Row]:
        """The rows of a named query."""
        query = queries()[name]
        return await self._inner.fetch(query.sql, *query.values(bindings), timeout=self._query_s)

    async def value(self, name: str, /, **bindings: Any) -> Any:
        """The first column of the first row of a named query, or None."""
        found = await self.rows(name, **bindings)
        return found[0][0] if found else None

    async def execute(self, query: Query, bindings: dict[str, Any], *, timeout_s: float | None = None) -> int:
        """Run a statement; return how many rows it inserted, changed or deleted."""
        status = await self._inner.execute(
            query.sql, *query.values(bindings), timeout=timeout_s or self._query_s
        )
        return int(status.rpartition(" ")[2])

    async def fetch(self, sql: str) -> list[Row]:
        """The rows of a query without parameters."""
        return await self._inner.fetch(sql, timeout=self._query_s)

    async def run(self, sql: str, *, timeout_s: float | None = None) -> None:
        """Run a script without parameters."""
        await self._inner.execute(sql, timeout=timeout_s or self._query_s)

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call `heard` with each payload sent to the channel from now on."""

        def told(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            heard(str(payload))

        await self._inner.add_listener(channel, told)

    def on_end(self, call: Callable[[], None]) -> None:
        """Call this when the connection ends."""

        def ended(_connection: object) -> None:
            call()

        self._inner.add_termination_listener(ended)

    def terminate(self) -> None:
        """End it at once."""
        self._inner.terminate()


class Database:
    """Where the database is and how long it may take to answer.

    A pooler such as PgBouncer may be in between. It can hand each transaction to another server process, so
    nothing that belongs to a session is used then: no settings, no named prepared statements.
    """

    connection_type: type[Connection] = Connection

    def __init__(self, dsn: str, tuning: PostgresTuning) -> None:
        self._address = DatabaseAddress.parse(dsn)
        self._tuning = tuning
        self.is_pooled: bool | None = None  # not known before the first connection
        self._pausing: set[asyncio.Future[None]] = set()

    async def connect(self, purpose: str, *, query_s: float | None = None) -> Connection:
        """A new connection; raises JournalError if there is none to be had."""
        try:
            inner = await self._open(purpose)
        except Exception as error:
            raise named(error) from error
        for pausing in self._pausing:
            if not pausing.done():
                pausing.set_result(None)
        pid = 0 if self.is_pooled else inner.get_server_pid()
        return self.connection_type(inner, query_s or self._tuning.query_s, pid=pid)

    async def pause(self, longest_s: float) -> None:
        """Wait before the next attempt to connect, but no longer than until somebody has connected.

        A node has a handful of connections, so those who wait can all try at once.
        """
        woken = asyncio.get_running_loop().create_future()
        self._pausing.add(woken)
        try:
            await asyncio.wait([woken], timeout=longest_s)
        finally:
            self._pausing.discard(woken)

    async def _open(self, purpose: str) -> Any:
        if self.is_pooled:
            return await self._open_pooled(purpose)
        settings = _SETTINGS | (_FIXED_PLANS if purpose == "writer" else {})
        try:
            inner = await self._open_with(purpose, settings)
        except pg.ProtocolViolationError:
            self.is_pooled = True  # the way in which PgBouncer refuses settings
            return await self._open_pooled(purpose)
        if self.is_pooled is None:
            # A pooler makes up the number that a client gets at the beginning. The answer is in the status,
            # because a query without parameters and rows needs no prepared statement.
            asked = f"SELECT FROM pg_backend_pid() AS pid WHERE pid = {inner.get_server_pid()}"
            try:
                self.is_pooled = await inner.execute(asked, timeout=self._tuning.connect_s) != "SELECT 1"
            except BaseException:
                inner.terminate()
                raise
            if self.is_pooled:
                inner.terminate()
                return await self._open_pooled(purpose)
        return inner

    async def _open_pooled(self, purpose: str) -> Any:
        has_statements = self._address.has_prepared_statements
        return await self._open_with(purpose, {}, **({} if has_statements else {"statement_cache_size": 0}))

    async def _open_with(self, purpose: str, settings: dict[str, str], **options: Any) -> Any:
        name = {"application_name": f"holdfast {purpose}"}
        return await _connect(
            **await self._address.arguments(),
            timeout=self._tuning.connect_s,
            server_settings=name | settings | self._address.settings,
            **options,
        )


class Pool:
    """A few connections for queries that can be repeated, each used by one caller at a time.

    A caller that is cancelled doesn't disturb its query: the connection is free again when that has ended.
    """

    def __init__(self, database: Database, purpose: str, count: int) -> None:
        self._database = database
        self._purpose = purpose
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(count)
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Return what the work does on some connection; it is done again if that connection was lost."""
        if self._closed:
            raise StoreClosed("the store is closed")
        task = asyncio.create_task(self._work(work), name=f"holdfast {self._purpose}")
        self._running.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait([task])
        if task.cancelled():
            raise StoreClosed("the store is closed")
        return task.result()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone

    async def rows(self, name: str, /, **bindings: Any) -> list[Row]:
        """The rows of a named query."""
        return await self.run(lambda connection: connection.rows(name, **bindings))

    async def _work(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        async with self._free:
            while self._idle:
                connection = self._idle.pop()
                try:
                    return await self._used(connection, work)
                except Exception as error:
                    if not is_lost(error):
                        raise named(error) from error
                    # The others were idle as long, and may be lost as well.
            if self._closed:
                raise StoreClosed("the store is closed")
            connection = await self._database.connect(self._purpose)
            try:
                return await self._used(connection, work)
            except Exception as error:
                raise named(error) from error

    async def _used(self, connection: Connection, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        try:
            result = await work(connection)
        except BaseException as error:
            if is_lost(error) or isinstance(error, asyncio.CancelledError):
                connection.terminate()
            else:
                self._keep(connection)
            raise
        self._keep(connection)
        return result

    def _keep(self, connection: Connection) -> None:
        if self._closed or connection.is_closed:
            connection.terminate()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """End all connections at once: the callers of running queries get StoreClosed."""
        self._closed = True
        for task in self._running:
            task.cancel()
        while self._running:
            await asyncio.wait(list(self._running))
        while self._idle:
            self._idle.pop().terminate()


async def migrate(connection: Connection, *, step_s: float | None = None) -> None:
    """Take the steps that are missing; raises StoreReadOnly if the schema is too new for this program.

    Each step, and waiting for another node to take them, may take `step_s`, by default as long as any query.
    """
    newest = migrations()[-1].number
    await connection.run("BEGIN")
    try:
        await connection.run(MIGRATION_LOCK, timeout_s=step_s)
        version, lowest = await _numbers(connection)
        if newest < lowest:
            raise StoreReadOnly(
                f"the database belongs to a newer Holdfast (its schema is {version}, and programs older than "
                f"{lowest} must not use it; this one knows {newest}): update Holdfast on this machine"
            )
        for step in migrations()[version:]:
            await connection.run(step.sql, timeout_s=step_s)
        if version < newest:
            record = Query(
                "UPDATE store SET version = $1, lowest = greatest(lowest, $2)", ("version", "lowest")
            )
            await connection.execute(record, {"version": newest, "lowest": LOWEST_THAT_MAY_START})
        await connection.run("COMMIT")
    except BaseException:
        connection.terminate()
        raise


async def _numbers(connection: Connection) -> tuple[int, int]:
    try:
        await connection.run("SAVEPOINT numbers")
        (row,) = await connection.fetch("SELECT version, lowest FROM store")
    except asyncpg.UndefinedTableError:
        await connection.run("ROLLBACK TO SAVEPOINT numbers")
        return 0, 0
    return row[0], row[1]
