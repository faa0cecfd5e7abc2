"""Finds the session that continues a chat: by the front end's chat id, or by the history of a one-user key.

A session of a chat is named after its first message and the messages before it. So every session that a
request could continue has a name that follows from the request, and no index is needed.
"""

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from starlette.requests import Request

from holdfast.features.openai.shapes import is_task
from holdfast.folds.entries import AskCard, Person, Text
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript, output
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.runs.client_messages import ClientInput, front_end_ids
from holdfast.server.runs.history import counted_runs
from holdfast.server.transport.once import COUNT_HEADER
from holdfast.values import HistoryMessage, Part

SAME_START_MAX = 16  # sessions of one chat that begin alike, for example answers that were generated again
DIGEST_CHARS = 24
CHAT_SESSIONS_MAX = 1_000  # of one chat id; edits beyond them start a new session
TURNS_MAX = 500  # longer chats always start a new session


class FrontEndChat(Struct, frozen=True):
    """Identifies a request's chat; without a chat id, by its history alone."""

    key: str
    user: str
    chat_id: str
    model: str

    @property
    def prefix(self) -> str:
        """The beginning of all names of this chat's sessions."""
        about = msgspec.json.encode((self.key, self.user, self.chat_id, self.model))
        return f"chat_{hashlib.sha256(about).hexdigest()[:DIGEST_CHARS]}_"

    def starts(self, turns: Sequence["Turn"]) -> Iterator[str]:
        """For each turn, the name of a session that began there, without its number.

        It depends on everything before that turn. Each message is hashed once.
        """
        prefix = self.prefix
        before = hashlib.sha256(prefix.encode())
        for turn in turns:
            here = before.copy()
            here.update(msgspec.json.encode((turn.user, turn.parts)))
            yield f"{prefix}{here.hexdigest()[:DIGEST_CHARS]}"
            before.update(msgspec.json.encode(turn))


def chat_of(request: Request, model: str, deps: RouteDeps) -> FrontEndChat | None:
    """The chat that the request is part of; None without a chat id, unless the key is `one_user`."""
    key: str = request.scope[KEY_NAME]
    user, chat_id = front_end_ids(request)
    if is_task(request) or not (chat_id or deps.budgets.of(key).one_user):
        return None
    return FrontEndChat(key, user, chat_id, model)


def grace_s(request: Request) -> float | None:
    """How long a run continues after its client disconnects; None for the default.

    A front end closes the connection when its user stops the answer. OpenAI's packages also do so before they
    retry.
    """
    is_front_end = bool(front_end_ids(request)[1]) and COUNT_HEADER not in request.headers
    return 0.0 if is_front_end else None


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """A person's message and everything that the client has of the answer, without white space."""

    user: str
    parts: tuple[Part, ...] = ()
    said: str = ""
    results: tuple[str, ...] = ()  # of the client's own tools


def turns_in(messages: Sequence[HistoryMessage]) -> tuple[Turn, ...]:
    """The messages by turn."""
    turns: list[Turn] = []
    for message in messages:
        last = turns[-1] if turns else Turn("")
        match message.role:
            case "user":
                turns.append(Turn(_plain(message.content), message.parts))
                continue
            case "tool":
                last = msgspec.structs.replace(last, results=(*last.results, _plain(message.content)))
            case _:
                last = msgspec.structs.replace(last, said=last.said + _plain(message.content))
        turns[-1:] = [last]
    return tuple(turns)


async def session_of(chat: FrontEndChat, said: ClientInput, deps: RouteDeps) -> str:
    """The session that ends where the request's history does, or else the name of a new one.

    Empty if it needs no name, because nothing can continue it.
    """
    turns, last = turns_in(said.before), Turn(_plain(said.text), said.parts)
    if len(turns) > TURNS_MAX:
        return ""
    *earlier, new = chat.starts((*turns, last))
    found = [one for one in await _begun(chat, earlier, deps) if await _ends_with(one, turns, chat, deps)]
    if len(found) == 1:
        return found[0]
    same_start = len(await _numbered(new, deps))
    return f"{new}_{same_start}" if same_start < SAME_START_MAX else ""


async def _begun(chat: FrontEndChat, starts: Sequence[str], deps: RouteDeps) -> list[str]:
    """The sessions that began at one of the turns: one lookup for a chat id, otherwise one for each turn."""
    if chat.chat_id:
        known = await deps.store.session_ids(chat.prefix, limit=CHAT_SESSIONS_MAX)
        wanted = set(starts)
        return [one for one in known if one.rpartition("_")[0] in wanted]
    return [one for start in starts for one in await _numbered(start, deps)]


async def _numbered(start: str, deps: RouteDeps) -> list[str]:
    """The sessions that began alike, deleted ones included."""
    found: list[str] = []
    for nth in range(SAME_START_MAX):
        session_id = f"{start}_{nth}"
        if await deps.store.session(session_id) is None:
            break
        found.append(session_id)
    return found


async def _ends_with(session_id: str, turns: Sequence[Turn], chat: FrontEndChat, deps: RouteDeps) -> bool:
    """Whether the session's conversation is the one that the client has."""
    row = await deps.store.session(session_id)
    if row is None or row.purge_at_ms:
        return False
    state, seen = await deps.folds.session(session_id)
    # Only its chat id shows that a session is the caller's own, with what was granted there.
    if not chat.chat_id and (state.grants or state.approval_mode or _has_open_ask(state)):
        return False
    known = list(_seen_turns(state, seen))
    return len(known) == len(turns) and all(
        one.is_same(turn, by_chat_id=chat.chat_id) for one, turn in zip(known, turns, strict=True)
    )


def _has_open_ask(state: Session) -> bool:
    return any(run.open_asks for run in state.runs.values())


class _SeenTurn(Struct, frozen=True):
    """A turn in the log. The client's text differs if the answer was cut off or waited for a person."""

    turn: Turn
    output: str  # the text that a client without streaming has
    is_partial: bool = False

    def is_same(self, turn: Turn, *, by_chat_id: str) -> bool:
        mine = self.turn
        if (mine.user, mine.parts, mine.results) != (turn.user, turn.parts, turn.results):
            return False
        return turn.said in {mine.said, self.output} or bool(by_chat_id and self.is_partial)


def _seen_turns(state: Session, seen: Transcript) -> Iterator[_SeenTurn]:
    runs = counted_runs(state, seen)
    given = seen.runs[runs[0]].history if runs else None
    for turn in turns_in(given or ()):
        yield _SeenTurn(turn, turn.said)
    for run_id in runs:
        run, view = state.runs[run_id], seen.runs[run_id]
        people = [entry.message for entry in view.entries if isinstance(entry, Person)]
        said = "".join(entry.text for entry in view.entries if isinstance(entry, Text))
        results = tuple(
            _plain(call.ended.result)
            for call in run.tools.values()
            if call.owner == "client" and call.ended is not None
        )
        asked = any(isinstance(entry, AskCard) for entry in view.entries)
        first = people[0] if people else None
        turn = Turn(_plain(first.text), first.parts, _plain(said), results) if first else Turn("")
        yield _SeenTurn(turn, _plain(output(seen, run_id)), asked or run.outcome != "completed")


def _plain(text: str) -> str:
    return "".join(text.split())
