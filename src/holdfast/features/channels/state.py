"""The state of a channel, as a fold of its log: who may talk, which chat has which session, what waits."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from holdfast import events as e
from holdfast.features.channels.events import (
    ChannelChatBound,
    ChannelCodeCreated,
    ChannelCodeTried,
    ChannelConnected,
    ChannelFailed,
    ChannelHomeChosen,
    ChannelMessageClosed,
    ChannelModelChosen,
    ChannelResultRequested,
    ChannelUpdateLogged,
    ChannelUserAllowed,
    ChannelUserRevoked,
)
from holdfast.folds.outbox import Outbox, apply_to_outbox, note_written

KEYS_MAX = 50_000  # remembered updates, far more than a platform repeats
TAKEN_MAX = 5_000  # remembered messages that people may still edit
REFUSALS_MAX = 5_000
TRIES_MAX = 5  # wrong codes before all open codes are void
BY_CODE = "code"  # who paired was let in by their code
CARDS_MAX = 200  # remembered in each chat
_NOT_CARDS = frozenset({"answer", "ending", "preview", "file"})  # other messages about a run
CONVERSATIONS_MAX = 5_000  # remembered, to catch up with them
Role: TypeAlias = Literal["user", "approver"]


class ChannelUser(Struct, frozen=True):
    """A person who may talk."""

    user: str
    name: str
    role: Role
    since_ms: int
    by: str = ""  # who let them in: the name of a key, or "code"


class AcceptedMessage(Struct, frozen=True):
    """A message of a chat that is in a session."""

    chat: str
    session_id: str
    message_id: str
    platform_id: str
    is_from_elsewhere: bool = False  # the chat only receives its result
    title: str = ""  # of what it is from, if that is elsewhere

    @property
    def awaited_as(self) -> str:
        """Return its key among awaited messages."""
        return f"{self.message_id}@{self.chat}" if self.is_from_elsewhere else self.message_id


class LastAccepted(Struct, frozen=True):
    """The newest message of a conversation that is on the log."""

    platform_id: str
    at_ms: int


class ChannelState(Struct):
    """Everything that the log of a channel says."""

    account: str = ""
    accounts: dict[str, int] = field(default_factory=dict[str, int])  # all that it has had, in order
    trouble: str = ""  # why the platform failed; empty: connected, or not tried yet
    hint: str = ""
    since_ms: int = 0  # of the connection, or of the trouble
    is_connected: bool = False
    codes: dict[str, int] = field(default_factory=dict[str, int])  # digest -> when it expires
    wrong_tries: int = 0
    users: dict[str, ChannelUser] = field(default_factory=dict[str, ChannelUser])
    revoked: set[str] = field(default_factory=set[str])
    refused: dict[str, None] = field(default_factory=dict[str, None])  # users who got a refusal
    keys: dict[str, None] = field(default_factory=dict[str, None])  # of updates that were accepted
    sessions: dict[str, str] = field(default_factory=dict[str, str])  # chat -> its session now
    chats: dict[str, str] = field(default_factory=dict[str, str])  # session -> its chat, also earlier ones
    bound: dict[str, int] = field(default_factory=dict[str, int])  # chat -> how many sessions it had
    home: str = ""  # the chat for results that name only the channel
    configured_home: str = ""
    cards: dict[str, dict[int, str]] = field(
        default_factory=dict[str, dict[int, str]]
    )  # chat -> requests whose cards it got, by number
    models: dict[str, str] = field(default_factory=dict[str, str])
    accepted: dict[tuple[str, str], AcceptedMessage] = field(
        default_factory=dict[tuple[str, str], AcceptedMessage]
    )  # by chat and platform id
    used: dict[tuple[str, str], None] = field(
        default_factory=dict[tuple[str, str], None]
    )  # messages that became something else, by chat and platform id
    awaited: dict[str, AcceptedMessage] = field(default_factory=dict[str, AcceptedMessage])  # by `awaited_as`
    last_taken: dict[str, LastAccepted] = field(default_factory=dict[str, LastAccepted])  # by conversation
    outbox: Outbox = field(default_factory=Outbox)

    def of_account(self, name: str) -> str:
        """Qualify an id that is unique only within the account, such as a message id."""
        number = self.accounts.get(self.account, 0)
        return f"{number}/{name}" if number and name else name

    def numbered(self, name: str) -> str:
        """Return the account's own id; empty if it belongs to another account."""
        number, slash, rest = name.rpartition("/")
        return rest if (int(number) if slash else 0) == self.accounts.get(self.account, 0) else ""

    def card_number(self, chat: str, ask_id: str) -> int:
        """Return the number of a request's card in the chat; 0 if it has none."""
        cards = self.cards.get(chat, {})
        return next((number for number, one in cards.items() if one == ask_id), 0)

    def sessions_in(self, chat: str) -> list[str]:
        """The session of a chat, and earlier ones of which it still awaits an answer."""
        now = [self.sessions[chat]] if chat in self.sessions else []
        awaited = [one for one in self.awaited.values() if one.chat == chat and not one.is_from_elsewhere]
        return list(dict.fromkeys([*now, *(one.session_id for one in awaited)]))

    def sessions_reported_in(self, chat: str) -> list[str]:
        """Return all sessions whose results a chat receives, including those from elsewhere."""
        awaited = (one.session_id for one in self.awaited.values() if one.chat == chat)
        return list(dict.fromkeys([*self.sessions_in(chat), *awaited]))

    def open_codes(self, now_ms: int) -> list[str]:
        """Digests of the codes that still let someone in."""
        return [digest for digest, expires_ms in self.codes.items() if now_ms < expires_ms]


def code_digest(log_id: str, text: str) -> str:
    """Return the digest of a pairing code, as stored in the log."""
    return sha256(f"{log_id}/{text.strip().upper()}".encode()).hexdigest()


def apply_to_channel(state: ChannelState, seq: int, event: e.Event) -> None:
    """Apply an event of the channel's log."""
    apply_to_outbox(state.outbox, seq, event)
    if isinstance(event, ChannelUpdateLogged):
        _update_taken(state, seq, event)
    elif isinstance(event, e.DeliveryIntended):
        _number_card(state, event)
    step = _STEPS.get(type(event))
    if step is not None:
        step(state, event)


def _number_card(state: ChannelState, event: e.DeliveryIntended) -> None:
    """Number the cards of a chat: a number never gets another request."""
    name = event.message.partition(":")[0]
    if not event.run or event.edits or event.body or "." in name or name in _NOT_CARDS:
        return
    cards = state.cards.setdefault(event.chat, {})
    if name not in cards.values():
        _remember(cards, 1 + max(cards, default=0), name, count_max=CARDS_MAX)


def _connected(state: ChannelState, event: ChannelConnected) -> None:
    if event.account != state.account:
        state.accounts.setdefault(event.account, len(state.accounts))
    state.account, state.trouble, state.hint = event.account, "", ""
    state.is_connected, state.since_ms = True, event.at_ms
    for delivery in state.outbox.open():
        if delivery.state == "unknown":  # it waits for the platform, which is back; limits are kept
            delivery.until_ms = min(delivery.until_ms, event.at_ms)


def _failed(state: ChannelState, event: ChannelFailed) -> None:
    state.trouble, state.hint = event.why, event.hint
    state.is_connected, state.since_ms = False, event.at_ms


def _code_made(state: ChannelState, event: ChannelCodeCreated) -> None:
    state.codes[event.digest] = event.expires_at_ms
    state.wrong_tries = 0


def _code_tried(state: ChannelState, event: ChannelCodeTried) -> None:
    if event.code:
        state.codes.pop(event.code, None)
        return
    state.wrong_tries += 1
    if state.wrong_tries >= TRIES_MAX:
        state.codes.clear()


def _user_allowed(state: ChannelState, event: ChannelUserAllowed) -> None:
    state.users[event.user] = ChannelUser(event.user, event.name, event.role, event.at_ms, event.by)
    state.revoked.discard(event.user)
    state.refused.pop(event.user, None)
    state.codes.pop(event.code, None)


def _user_revoked(state: ChannelState, event: ChannelUserRevoked) -> None:
    state.users.pop(event.user, None)
    state.revoked.add(event.user)


def _chat_bound(state: ChannelState, event: ChannelChatBound) -> None:
    state.sessions[event.chat] = event.session_id
    state.chats[event.session_id] = event.chat
    state.bound[event.chat] = state.bound.get(event.chat, 0) + 1


def _model_chosen(state: ChannelState, event: ChannelModelChosen) -> None:
    state.models[event.chat] = event.model


def _home_chosen(state: ChannelState, event: ChannelHomeChosen) -> None:
    state.home = event.chat
    if not event.by:
        state.configured_home = event.chat


def _update_taken(state: ChannelState, seq: int, event: ChannelUpdateLogged) -> None:
    _remember(state.keys, event.key, None, count_max=KEYS_MAX)
    if event.became == "refused":
        _remember(state.refused, event.user, None, count_max=REFUSALS_MAX)
        return
    note_written(state.outbox, seq, event.chat)
    if event.conversation:
        _note_last(state, event)
    if event.message_id:
        accepted = AcceptedMessage(event.chat, event.session_id, event.message_id, event.platform_id)
        state.awaited[event.message_id] = accepted
        if event.platform_id:
            _remember(state.accepted, (event.chat, event.platform_id), accepted, count_max=TAKEN_MAX)
    elif event.platform_id and event.became in {"answer", "command", "ignored"}:
        _remember(state.used, (event.chat, event.platform_id), None, count_max=TAKEN_MAX)


def _note_last(state: ChannelState, event: ChannelUpdateLogged) -> None:
    """Remember the newest message of a conversation, the one that was active last at the end."""
    before = state.last_taken.pop(event.conversation, None)
    # Ids grow with time on every platform that lists old messages; longer ones are greater.
    ids = [(len(one), one) for one in (event.platform_id, before.platform_id if before else "")]
    newest = LastAccepted(max(ids)[1], event.at_ms)
    _remember(state.last_taken, event.conversation, newest, count_max=CONVERSATIONS_MAX)


def _result_wanted(state: ChannelState, event: ChannelResultRequested) -> None:
    accepted = AcceptedMessage(
        event.chat, event.session_id, event.message_id, "", is_from_elsewhere=True, title=event.title
    )
    if accepted.awaited_as not in state.keys:
        _remember(state.keys, accepted.awaited_as, None, count_max=KEYS_MAX)
        state.awaited[accepted.awaited_as] = accepted
        state.chats.setdefault(event.session_id, event.chat)


def _message_settled(state: ChannelState, event: ChannelMessageClosed) -> None:
    settled = f"{event.message_id}@{event.chat}" if event.chat else event.message_id
    state.awaited.pop(settled, None)


def _remember(known: dict[Any, Any], key: object, value: object, *, count_max: int) -> None:
    known[key] = value
    if len(known) > count_max:
        del known[next(iter(known))]


_STEPS: Mapping[type[e.Event], Callable[[ChannelState, Any], None]] = MappingProxyType(
    {
        ChannelConnected: _connected,
        ChannelFailed: _failed,
        ChannelCodeCreated: _code_made,
        ChannelCodeTried: _code_tried,
        ChannelUserAllowed: _user_allowed,
        ChannelUserRevoked: _user_revoked,
        ChannelChatBound: _chat_bound,
        ChannelModelChosen: _model_chosen,
        ChannelHomeChosen: _home_chosen,
        ChannelResultRequested: _result_wanted,
        ChannelMessageClosed: _message_settled,
    }
)
