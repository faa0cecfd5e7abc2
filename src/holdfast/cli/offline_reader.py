"""The store as commands read it while no server runs: the same answers, straight from the file."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, assert_never

import msgspec

from holdfast.api.access import KeyShown
from holdfast.api.approvals import OpenAsk
from holdfast.api.errors import ErrorDetail
from holdfast.api.operation import SCOPES
from holdfast.api.runs import RunListed, RunPage, RunShown
from holdfast.api.sessions import SessionExport, SessionPage, SessionShown, TranscriptPage
from holdfast.catalog import LOG_SOURCES
from holdfast.cli.reader import PausedSession
from holdfast.client.errors import Refused
from holdfast.client.updates import Heard, Seen
from holdfast.config.settings import Settings
from holdfast.folds import session, transcript
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.folds.session_fold import RunReplay
from holdfast.folds.transcript import Transcript
from holdfast.host.data_dir import running_server
from holdfast.host.server_keys import key_for_clients, keys_of
from holdfast.host.stores import store_place
from holdfast.interfaces.index import ListedSession, RunQuery, SessionQuery
from holdfast.interfaces.journal import Record, StoreFailed
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.memory import MemoryStore
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.redaction import NO_SECRETS
from holdfast.server.access.keys import AddedKeys
from holdfast.server.runs.listing import preview_of, previews_of, runs_with
from holdfast.server.runs.run_state import open_asks_in, run_shown, run_state
from holdfast.server.sessions.exports import markdown_in_pieces
from holdfast.server.sessions.listing import ReadMarks, entry, hit, listed, with_family
from holdfast.values import CHILD, OPENAI, RELAY

AT_ONCE = 1000
PAUSED = "paused"  # a run that no process carries out; there is no such status where a server is
NOT_FOUND = 404


class OfflineReader:
    """Reads the store without a lock; an async context manager. See Reads."""

    def __init__(self, settings: Settings) -> None:
        if settings.server.store:
            raise StoreFailed(
                f"no server is running to read the sessions in {store_place(settings)}: start one with "
                "`holdfast serve`"
            )
        self.settings = settings
        self._path = settings.store_path
        self.store: SqliteReader | MemoryStore = SqliteReader(self._path)
        self._is_served = False
        self.is_new = False  # nothing was ever kept here
        self._marks = ReadMarks(self.store)  # pyright: ignore[reportArgumentType]  # it is asked, never told

    async def __aenter__(self) -> Self:
        self.is_new = not await asyncio.to_thread(self._path.exists)
        if self.is_new:
            self.store = MemoryStore(NO_SECRETS)
        self._is_served = await asyncio.to_thread(running_server, self._path.parent) is not None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.close()

    async def runs(
        self, *, session_id: str = "", status: str = "", limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """See Reads."""
        created, _, run_id = cursor.partition(":")
        before = (int(created), run_id) if cursor else None
        # Active runs are shown as paused, because no server is running.
        names = {} if self._is_served else {"running": "nothing", PAUSED: "running"}
        wanted = runs_with(names.get(status, status))
        if wanted is None:
            return RunPage(data=(), has_more=False, next_cursor=None)
        query = RunQuery(limit=limit + 1, before=before, session_id=session_id, **wanted)
        rows = await self.store.runs(query)
        page, last = rows[:limit], rows[limit - 1] if len(rows) > limit else None
        previews = await previews_of(self.store, page)
        return RunPage(
            data=tuple([_as_listed(await self._shown(row, previews[row.run_id])) for row in page]),
            has_more=last is not None,
            next_cursor=f"{last.created_ms}:{last.run_id}" if last else None,
        )

    async def run(self, run_id: str) -> RunShown:
        """See Reads."""
        row = await self._row(run_id)
        return await self._shown(row, await preview_of(self.store, row))

    async def watch(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Heard]:
        """See Reads: without a server, nothing follows what is there."""
        row = await self._row(run_id)
        at = max(after, row.first_seq - 1)
        while records := await self.store.read(row.session_id, after=at, limit=AT_ONCE):
            for record in records:
                if run_of(record.event) == run_id:
                    yield Seen(record.seq, record.event, _line(record))
            at = records[-1].seq

    async def sessions(
        self, *, words: str = "", limit: int = 50, cursor: str = "", archived: str = "", children: str = ""
    ) -> SessionPage:
        """See Reads; the first page is all that there is."""
        del cursor
        if not words:
            hidden = (OPENAI, RELAY, *LOG_SOURCES, *(() if children == "true" else (CHILD,)))
            wanted = SessionQuery(limit=limit, archived=archived == "true", sources_hidden=hidden)
            found = await self.store.sessions(wanted)
            page = _one_page(await with_family(self.store, [self._session(one) for one in found]))
            open_asks = await self.store.open_ask_count()
            return msgspec.structs.replace(page, limit=limit, offset=0, open_asks=open_asks)
        data: list[SessionShown] = []
        for one in await self.store.search(words, limit=limit):
            row = await self.store.listed(one.session_id)
            if row is not None:
                data.append(msgspec.structs.replace(self._session(row), hit=hit(one)))
        return _one_page(data)

    async def session(self, session_id: str) -> SessionShown:
        """See Reads."""
        return self._session(await self._listed(session_id))

    async def messages(self, session_id: str, *, before: int = 0, limit: int = 100) -> TranscriptPage:
        """See Reads."""
        await self._listed(session_id)
        state, seen = await self._folded(session_id)
        below = [one for one in seen.entries if not before or one.seq < before]
        now_ms = SystemClock().now_ms()
        page = below[-limit:]
        return TranscriptPage(
            session_id=session_id,
            data=_json([entry(one, state, seen, now_ms=now_ms, owned=False) for one in page]),
            has_more=len(below) > len(page),
            next_before=None,
            last_seq=seen.last_seq,
            runs=(),
        )

    async def export(self, session_id: str, *, form: Literal["json", "md", "html"] = "json") -> bytes:
        """See Reads."""
        found = await self._listed(session_id)
        if form == "md":
            pieces = markdown_in_pieces(*await self._folded(session_id))
            return b"".join([piece async for piece in pieces])
        if form == "html":
            from holdfast.server.sessions.html_export import html_in_pieces

            blobs = FileBlobs(self._path.with_name("blobs"))
            pieces = html_in_pieces(*await self._folded(session_id), partial(asyncio.to_thread, blobs.get))
            return b"".join([piece async for piece in pieces])
        events = tuple(
            {"seq": record.seq, **msgspec.json.decode(record.body)} for record in await self._all(session_id)
        )
        return msgspec.json.encode(SessionExport(session=listed(found, self._marks), events=events))

    async def approvals(self) -> Sequence[OpenAsk]:
        """See Reads."""
        return tuple(await open_asks_in(self.store))

    async def keys(self) -> Sequence[KeyShown]:
        """See Reads."""
        settings = self.settings
        made = await asyncio.to_thread(key_for_clients, settings) if settings.server.api_keys is None else ""
        given = keys_of(self.settings, made or None) or ()
        added = AddedKeys(self.store, SystemClock())  # pyright: ignore[reportArgumentType]  # the same
        await added.load()
        return [
            *(KeyShown(name=key.name, source=key.source, created_at=None, scopes=SCOPES) for key in given),
            *(
                KeyShown(name=key.name, source="added", created_at=key.created_ms / 1000, scopes=key.scopes)
                for key in added.list()
            ),
        ]

    async def _row(self, run_id: str) -> RunRow:
        row = await self.store.run(run_id)
        if row is None:
            raise _unknown(f"Run not found: {run_id[:100]}", "run_not_found")
        return row

    async def _shown(self, row: RunRow, preview: str) -> RunShown:
        replay, at = RunReplay(row.run_id), row.first_seq - 1
        # The row of an ended run says where it ends; that of another lags behind its log.
        until = row.last_seq if row.status == "ended" else await self.store.last_seq(row.session_id)
        while at < until:
            records = await self.store.read(row.session_id, after=at, limit=min(AT_ONCE, until - at))
            if not records:
                break
            for record in records:
                replay.apply(record.seq, record.event)
            at = records[-1].seq
        if replay.fold is None:
            raise _unknown(f"Run not found: {row.run_id[:100]}", "run_not_found")
        run, more = replay.fold.state, dict[str, str]()
        if not self._is_served:
            more = _unattended(run, run.settings.on_restart or self.settings.server.on_restart)
        return run_shown(run_state(replay.fold, row), preview=preview, **more)

    async def _listed(self, session_id: str) -> ListedSession:
        found = await self.store.listed(session_id)
        if found is None or found.row.purge_at_ms:
            raise _unknown(f"Session not found: {session_id[:100]}", "session_not_found")
        return found

    def _session(self, found: ListedSession) -> SessionShown:
        shown = listed(found, self._marks)
        is_paused = not self._is_served and bool(shown.open_runs) and not shown.open_asks
        return PausedSession(**msgspec.structs.asdict(shown)) if is_paused else shown

    async def _all(self, session_id: str) -> list[Record]:
        found: list[Record] = []
        at = 0
        while records := await self.store.read(session_id, after=at, limit=AT_ONCE):
            found += records
            at = records[-1].seq
        return found

    async def _folded(self, session_id: str) -> tuple[Session, Transcript]:
        state, seen = Session(), Transcript()
        for record in await self._all(session_id):
            session.apply(state, record.seq, record.event)
            transcript.apply(seen, record.seq, record.event)
        return state, seen


def _unattended(run: Run, on_restart: str) -> dict[str, str]:
    """How a run stands that no process carries out."""
    match run.status:
        case "running":
            then = "ends as interrupted" if on_restart == "interrupt" else "continues"
            return {"status": PAUSED, "hint": f"No server is running; the run {then} when one starts."}
        case "queued" | "stopping":
            then = "ends as stopped" if run.status == "stopping" else "starts"
            return {"hint": f"No server is running; the run {then} when one starts."}
        case "waiting_for_approval" | "waiting_for_client" | "ended":
            return {}
        case _:
            assert_never(run.status)


def _line(record: Record) -> bytes:
    """The event with its seq in front, as a stream has it."""
    return record.frame.partition(b"data: ")[2].rstrip(b"\n")


def _json(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the entries as a client would decode them."""
    return msgspec.json.decode(msgspec.json.encode(entries), type=tuple[dict[str, Any], ...])


def _as_listed(run: RunShown) -> RunListed:
    """The run as a list shows it."""
    return RunListed(**{name: getattr(run, name) for name in RunListed.__struct_fields__})


def _one_page(sessions: Sequence[SessionShown]) -> SessionPage:
    return SessionPage(data=tuple(sessions), has_more=False, next_cursor=None)


def _unknown(message: str, code: str) -> Refused:
    return Refused(NOT_FOUND, ErrorDetail(message=message, type="invalid_request_error", code=code))
