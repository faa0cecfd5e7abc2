"""Sessions for Model Context Protocol clients: as resources, and as results of tools."""

import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

import msgspec

from holdfast.features.mcp_server.bodies import ListSessionsArguments, ReadSessionArguments
from holdfast.features.mcp_server.frames import TEXT_CHARS_MAX, tool_result
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, Json, RpcError
from holdfast.features.mcp_server.service import McpCall
from holdfast.interfaces.index import ListedSession, SessionQuery
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import session_not_found
from holdfast.server.sessions.exports import markdown_of
from holdfast.server.sessions.listing import cursor_in, cursor_of, entry, page_of

SCHEME = "holdfast://sessions/"
MARKDOWN, JSON = "text/markdown", "application/json"
PAGE = 50
ENTRIES_MAX = 200
TITLE_CHARS_MAX = 120
COMPLETIONS_MAX = 100  # as the protocol says
LOOKED_AT_MAX = 500
_URI = re.compile(re.escape(SCHEME) + r"([^/?#]{1,1024})(/json)?")


class SessionViews:
    """Views of sessions for clients, all bounded."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def listed(self, cursor: str) -> Json:
        """`resources/list`: a page of sessions, newest first."""
        found, following = await self._page(PAGE, cursor)
        page: Json = {"resources": [_resource(one) for one in found]}
        return page | ({"nextCursor": following} if following else {})

    def templates(self) -> Json:
        """`resources/templates/list`: a session as a document, or as data."""
        about = "The transcript of a session, or its newest part if it's long."
        return {
            "resourceTemplates": [
                {
                    "uriTemplate": SCHEME + "{session_id}",
                    "name": "session",
                    "title": "Session",
                    "description": about,
                    "mimeType": MARKDOWN,
                },
                {
                    "uriTemplate": SCHEME + "{session_id}/json",
                    "name": "session_json",
                    "title": "Session as JSON",
                    "description": f"{about} Up to {ENTRIES_MAX} entries.",
                    "mimeType": JSON,
                },
            ]
        }

    async def matching(self, typed: str) -> list[str]:
        """`completion/complete`: the newest sessions whose id begins so, or whose title has it."""
        found = await self._deps.store.sessions(SessionQuery(limit=LOOKED_AT_MAX))
        words = typed.casefold()
        ids = [
            one.row.session_id
            for one in found
            if one.row.session_id.startswith(typed) or words in _title(one).casefold()
        ]
        return ids[:COMPLETIONS_MAX]

    async def read(self, uri: object, *, is_modern: bool) -> Json:
        """`resources/read`."""
        session_id = session_in(uri)
        if session_id is None or await self._known(session_id) is None:
            # Up to 2025, this had a separate code.
            code = INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
            raise RpcError(code, "Unknown resource", data={"uri": str(uri)[:1024]})
        assert isinstance(uri, str), "it was read as one"
        if uri.endswith("/json"):
            text, kind = msgspec.json.encode(await self._entries(session_id, 0, ENTRIES_MAX)).decode(), JSON
        else:
            (text, _, _), kind = await self._markdown(session_id, before=0, limit=ENTRIES_MAX), MARKDOWN
        return {"contents": [{"uri": uri, "mimeType": kind, "text": text}]}

    async def list_tool(self, call: McpCall, given: ListSessionsArguments) -> Json:
        """The tool `list_sessions`."""
        del call
        if given.query:
            hits = await self._deps.store.search(given.query, limit=given.limit)
            rows = [await self._known(hit.session_id) for hit in hits]
            found, following = [row for row in dict.fromkeys(rows) if row is not None], ""
        else:
            found, following = await self._page(given.limit, given.cursor)
        shown = [_shown(one) for one in found]
        lines = [f"- {one['session_id']}: {one['title']} ({one['status']})" for one in shown]
        about: Json = {"sessions": shown} | ({"next_cursor": following} if following else {})
        return tool_result("\n".join(lines) or "No sessions.", about)

    async def read_tool(self, call: McpCall, given: ReadSessionArguments) -> Json:
        """The tool `read_session`."""
        del call
        if await self._known(given.session_id) is None:
            raise session_not_found(given.session_id)
        text, more, last_seq = await self._markdown(given.session_id, before=given.before, limit=given.limit)
        about: Json = {"session_id": given.session_id, "last_seq": last_seq}
        return tool_result(text, about | ({"next_before": more} if more else {}))

    async def _page(self, limit: int, cursor: str) -> tuple[list[ListedSession], str]:
        query = SessionQuery(limit=limit + 1, before=cursor_in(cursor))
        found = list(await self._deps.store.sessions(query))
        return found[:limit], cursor_of(found[limit - 1]) if len(found) > limit else ""

    async def _known(self, session_id: str) -> ListedSession | None:
        found = await self._deps.store.listed(session_id)
        return None if found is None or found.row.purge_at_ms else found

    async def _markdown(self, session_id: str, *, before: int, limit: int) -> tuple[str, int, int]:
        """Entries as a document, where the ones before them end, and the newest seq.

        The document is cut at its beginning if it's long.
        """
        state, seen = await self._deps.folds.session(session_id)
        page, more = page_of(seen, before=before, limit=limit)
        text = markdown_of(state, page)
        is_long = len(text) > TEXT_CHARS_MAX
        text = text[-TEXT_CHARS_MAX:]
        text = f"[Earlier entries omitted.]\n\n{text}" if more or is_long else text
        return text, more, seen.last_seq

    async def _entries(self, session_id: str, before: int, limit: int) -> Json:
        state, seen = await self._deps.folds.session(session_id)
        page, more = page_of(seen, before=before, limit=limit)
        owned, now_ms = self._deps.supervisor.owner(session_id) is not None, self._deps.clock.now_ms()
        entries = [entry(one, state, seen, now_ms=now_ms, owned=owned) for one in page]
        return {
            "session_id": session_id,
            "title": state.title,
            "entries": entries,
            "next_before": more or None,
            "last_seq": seen.last_seq,
        }


def uri_of(session_id: str) -> str:
    """The address of a session."""
    return SCHEME + quote(session_id, safe="")


def session_in(uri: object) -> str | None:
    """The session that an address names; None if it's none of ours."""
    found = _URI.fullmatch(uri) if isinstance(uri, str) else None
    return unquote(found[1]) if found else None


def _title(found: ListedSession) -> str:
    row = found.row
    return (row.title or row.preview or row.session_id)[:TITLE_CHARS_MAX]


def _resource(found: ListedSession) -> Json:
    return {
        "uri": uri_of(found.row.session_id),
        "name": found.row.session_id,
        "title": _title(found),
        "mimeType": MARKDOWN,
        "annotations": {"lastModified": _iso(found.row.updated_ms)},
    }


def _shown(found: ListedSession) -> Json:
    busy = "waiting" if found.open_asks else "running" if found.begun_runs else "queued"
    return {
        "session_id": found.row.session_id,
        "title": _title(found),
        "status": busy if found.open_runs else "idle",
        "updated_at": _iso(found.row.updated_ms),
    }


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
