"""Answers approvals and questions from a chat: by id, with permission checks, in the chat of the request."""

from msgspec import Struct

from holdfast import events as e
from holdfast.features.channels.cards import TOO_LONG, is_listed_whole, is_shown_whole, several
from holdfast.features.channels.deliveries import TO, PlatformFormat, confirmed_overflow
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.modes import modes_allowed
from holdfast.features.channels.people import may_approve
from holdfast.features.channels.state import ChannelState
from holdfast.folds.rows import AskRow
from holdfast.folds.run import AskStatus
from holdfast.runner.asks import (
    Answered,
    AnswerNotOffered,
    AnswerResult,
    ApprovalVerdict,
    QuestionAnswer,
    Stale,
    UnknownAsk,
)
from holdfast.server.sessions.listing import root_of
from holdfast.values import Choice

NOT_YOURS = "You don't have permission to approve actions."
STALE = "This request was already answered, or it has expired."
ELSEWHERE = "This request belongs to another conversation."
UNKNOWN = "No approval request has this ID."
NOT_OFFERED = "That choice isn't available for this request."
ALLOWED, DENIED, ANSWERED = "Allowed", "Denied", "Answered"
DONE = frozenset({ALLOWED, DENIED, ANSWERED})  # the answer was accepted
LISTED_MAX = 20


class Answerer(Struct, frozen=True):
    """The person who answers, their chat, and the key of the platform's update."""

    user: str
    name: str
    chat: str
    key: str = ""
    is_direct: bool = False  # a direct chat with the bot


class _Found(Struct, frozen=True):
    """An open request and its session."""

    session_id: str
    ask: AskStatus


class ChannelAsks:
    """Resolves requests for one channel. Each call returns a short reply for the person."""

    def __init__(
        self, deps: ChannelDeps, options: ChannelOptions, state: ChannelState, *, text_format: PlatformFormat
    ) -> None:
        self._deps = deps
        self._options = options
        self._state = state
        self._text_format = text_format

    async def settle(self, ask_id: str, choice: str, who: Answerer) -> str:
        """Answer the request of a button, with a choice or the number of a question's choice."""
        found = await self._found(ask_id, who)
        if isinstance(found, str):
            return found
        asked = found.ask.asked
        if isinstance(asked, e.QuestionAsked) and choice.isdigit() and int(choice) < len(asked.choices):
            choice = asked.choices[int(choice)]
        return await self._settle(found, choice, who)

    async def reply(self, question_id: str, text: str, who: Answerer) -> str:
        """Answer a question with a person's text, whatever its choices."""
        found = await self._found(question_id, who)
        return found if isinstance(found, str) else await self._settle(found, text, who)

    async def _found(self, ask_id: str, who: Answerer) -> "_Found | str":
        """Return the open request with this id if it belongs to the person's chat, or else a reply."""
        row = await self._deps.store.ask(ask_id)
        if row is None or await self._chat_of(row) != who.chat:
            return ELSEWHERE
        return await self._open(row) or STALE

    async def decide(self, approval_id: str, choice: str, who: Answerer) -> str:
        """Answer the approval named in a command: in its chat, or from an approver's direct chat."""
        row = await self._deps.store.ask(approval_id)
        chat = await self._chat_of(row) if row is not None else None
        is_theirs = chat == who.chat or (who.is_direct and self.is_approver(who))
        if row is None or row.kind != "approval" or chat is None or not is_theirs:
            return UNKNOWN
        found = await self._open(row)
        if found is None:
            return STALE
        if chat != who.chat and choice != "deny":
            if not is_listed_whole(found.ask):
                return TOO_LONG  # its card is in another chat, and it's too long for a list
            if not self._is_listed_in(who.chat, approval_id):
                return several([found.ask], "approve")
        return await self._settle(found, choice, who)

    def _is_listed_in(self, chat: str, approval_id: str) -> bool:
        """Return whether a list with this action was delivered to the chat."""
        said = (one for one in self._state.outbox.deliveries.values() if one.intended.chat == chat)
        return any(one.state == "confirmed" and approval_id in one.intended.body for one in said)

    async def waiting_elsewhere(self, who: Answerer) -> list[AskStatus]:
        """Return pending approvals of other chats, for an approver in their direct chat."""
        if not who.is_direct or not self.is_approver(who):
            return []
        rows = [
            one
            for one in await self._deps.store.open_asks()
            if (chat := await self._chat_of(one)) is not None and chat != who.chat
        ]
        found: list[AskStatus] = []
        for row in rows[:LISTED_MAX]:
            run = (await self._deps.inbox.state(row.session_id)).runs.get(row.run_id)
            ask = run.asks.get(row.ask_id) if run is not None else None
            if ask is not None and ask.state == "open" and isinstance(ask.asked, e.ApprovalAsked):
                found.append(ask)
        return found

    async def _chat_of(self, ask: AskRow) -> str | None:
        """Return the chat of the request. A sub-agent's requests belong to the chat of its root session."""
        return self._state.chats.get(await root_of(self._deps.store, ask.session_id))

    def is_approver(self, who: Answerer) -> bool:
        """Return whether this person can approve."""
        return may_approve(self._options, self._state, who.user)

    async def _open(self, row: AskRow) -> "_Found | None":
        """Return the request, if it's open."""
        session = await self._deps.inbox.state(row.session_id)
        run = session.runs.get(row.run_id)
        ask = run.asks.get(row.ask_id) if run is not None else None
        return _Found(row.session_id, ask) if ask is not None and ask.state == "open" else None

    async def _settle(self, found: "_Found", choice: str, who: Answerer) -> str:
        asked = found.ask.asked
        if isinstance(asked, e.QuestionAsked):
            answer = QuestionAnswer(choice, by=who.name, client_id=who.key)
            return _reply_to(await self._deps.inbox.answer(asked.ask_id, answer), ANSWERED)
        # In a direct chat, anyone with access can deny.
        if not self.is_approver(who) and not (who.is_direct and choice == "deny"):
            return NOT_YOURS
        # No one can approve an action that the chat doesn't show in full.
        if choice != "deny" and not await self._is_shown_whole(found):
            return TOO_LONG
        assert isinstance(asked, e.ApprovalAsked)
        meant = _choice(asked, choice)
        if meant is None:
            return NOT_OFFERED
        verdict = ApprovalVerdict(meant, by=who.name, mode_max=modes_allowed(self._deps, self._options)[-1])
        result = await self._deps.inbox.answer(asked.ask_id, verdict)
        return _reply_to(result, DENIED if meant == "deny" else ALLOWED)

    async def _is_shown_whole(self, found: "_Found") -> bool:
        """Return whether a card, or the messages above it, show the whole request."""
        if is_shown_whole(found.ask, self._text_format.fits):
            return True
        cards = await self._cards_of(found.ask, await root_of(self._deps.store, found.session_id))
        return any(confirmed_overflow(self._state.outbox, one, found.ask, self._text_format) for one in cards)

    async def _cards_of(self, ask: AskStatus, session_id: str) -> list[e.DeliveryIntended]:
        """Return a request's cards for the chat of a session, even if its run was started elsewhere."""
        chat, ask_id = self._state.chats.get(session_id, ""), ask.asked.ask_id
        session = await self._deps.inbox.state(session_id)
        return [
            e.DeliveryIntended(at_ms=0, chat=chat, message=message, run=run.run_id)
            for run in session.runs.values()
            if ask_id in run.person_asks
            for message in (ask_id, f"{ask_id}{TO}{chat}")
        ]

    async def open_asks(self, *session_ids: str) -> list[AskStatus]:
        """Return the open approvals and questions of these sessions."""
        sessions = [await self._deps.inbox.state(session_id) for session_id in session_ids]
        runs = [run for session in sessions for run in session.runs.values()]
        # Background sub-agents can have requests after their parent's run ended.
        return [ask for run in runs for ask in run.open_person_asks]

    async def is_on_card(self, ask: AskStatus) -> bool:
        """Return whether the request's card was delivered to its chat."""
        row = await self._deps.store.ask(ask.asked.ask_id)
        if row is None:
            return False
        intended = await self._cards_of(ask, await root_of(self._deps.store, row.session_id))
        cards = [self._state.outbox.deliveries.get(one.key) for one in intended]
        return any(card is not None and card.state == "confirmed" for card in cards)

    async def was_answered(self, who: Answerer) -> bool:
        """Return whether this message already answered a question, before a crash."""
        session_id = self._state.sessions.get(who.chat)
        if session_id is None:
            return False
        session = await self._deps.inbox.state(session_id)
        last = next(reversed(session.runs.values()), None)
        asks = [] if last is None else list(last.person_asks.values())
        questions = [ask.asked.ask_id for ask in asks if isinstance(ask.asked, e.QuestionAsked)]
        rows = [await self._deps.store.ask(question_id) for question_id in questions]
        # A sub-agent's question is answered in its own log.
        first_seqs = {row.session_id: row.seq for row in reversed(rows) if row is not None}
        return any([await self._has_answer(id_, seq, who.key) for id_, seq in first_seqs.items()])

    async def _has_answer(self, session_id: str, after: int, key: str) -> bool:
        """Return whether the log has an answer with this key after the first question."""
        while records := await self._deps.store.read(session_id, after=after):
            answers = (one.event for one in records if isinstance(one.event, e.QuestionAnswered))
            if any(answer.client_id == key for answer in answers):
                return True
            after = records[-1].seq
        return False


def _reply_to(result: AnswerResult, done: str) -> str:
    """Return the reply for the person who answered."""
    match result:
        case Answered():
            return done
        case Stale() | UnknownAsk():
            return STALE
        case AnswerNotOffered():
            return NOT_OFFERED


def _choice(asked: e.ApprovalAsked, text: str) -> Choice | None:
    """Return the choice of a button or command, if the approval offers it."""
    return next((one for one in asked.choices if one == text), None)
