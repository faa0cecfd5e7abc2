"""Answers approvals and questions from a chat: by id, by those who may, in the chat that was asked."""

from dataclasses import dataclass

from holdfast import events as e
from holdfast.channels.answers import TO, Dialect, words_above
from holdfast.channels.cards import TOO_LONG, is_listed_whole, is_shown_whole, several
from holdfast.channels.deps import ChannelDeps, ChannelOptions
from holdfast.channels.people import may_approve
from holdfast.folds.channel import ChannelState
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
from holdfast.server.sessions.roots import root_of
from holdfast.values import Choice

NOT_YOURS = "You can't approve for this agent."
STALE = "This is already decided, or it has expired."
ELSEWHERE = "This belongs to another conversation."
UNKNOWN = "There is no approval with this id."
NOT_OFFERED = "This approval doesn't offer that choice."
ALLOWED, DENIED, ANSWERED = "Allowed", "Denied", "Answered"
DONE = frozenset({ALLOWED, DENIED, ANSWERED})  # it went as its person wanted
LISTED_MAX = 20


@dataclass(frozen=True, slots=True)
class Answerer:
    """The person who answers, where, and under which key the platform told of it."""

    user: str
    name: str
    chat: str
    key: str = ""
    is_direct: bool = False  # the chat is the person's own with the bot


@dataclass(frozen=True, slots=True)
class _Found:
    """An open ask, and where it is."""

    session_id: str
    ask: AskStatus


class ChannelAsks:
    """Settles asks for one channel; each answer is a short text for the person who gave it."""

    def __init__(
        self, deps: ChannelDeps, options: ChannelOptions, state: ChannelState, *, dialect: Dialect
    ) -> None:
        self._deps = deps
        self._options = options
        self._state = state
        self._dialect = dialect

    async def settle(self, ask_id: str, choice: str, who: Answerer) -> str:
        """Answer exactly this ask, as a button says: a word, or the number of a question's choice."""
        found = await self._found(ask_id, who)
        if isinstance(found, str):
            return found
        asked = found.ask.asked
        if isinstance(asked, e.QuestionAsked) and choice.isdigit() and int(choice) < len(asked.choices):
            choice = asked.choices[int(choice)]
        return await self._settle(found, choice, who)

    async def reply(self, question_id: str, text: str, who: Answerer) -> str:
        """Answer a question with what someone wrote, whatever its choices are."""
        found = await self._found(question_id, who)
        return found if isinstance(found, str) else await self._settle(found, text, who)

    async def _found(self, ask_id: str, who: Answerer) -> "_Found | str":
        """The open ask with this id, if it belongs to the chat of the person; else what to tell them."""
        row = await self._deps.store.ask(ask_id)
        if row is None or await self._chat_of(row) != who.chat:
            return ELSEWHERE
        return await self._open(row) or STALE

    async def decide(self, approval_id: str, choice: str, who: Answerer) -> str:
        """Answer the approval that a command names: in its chat, or from an approver's own chat."""
        row = await self._deps.store.ask(approval_id)
        chat = await self._chat_of(row) if row is not None else None
        is_theirs = chat == who.chat or (who.is_direct and self._is_approver(who))
        if row is None or row.kind != "approval" or chat is None or not is_theirs:
            return UNKNOWN
        found = await self._open(row)
        if found is None:
            return STALE
        if chat != who.chat and choice != "deny":
            if not is_listed_whole(found.ask):
                return TOO_LONG  # its card is in another chat, and no list can show it
            if not self._is_listed_in(who.chat, approval_id):
                return several([found.ask], "approve")
        return await self._settle(found, choice, who)

    def _is_listed_in(self, chat: str, approval_id: str) -> bool:
        """Whether a list with this action has arrived in the chat."""
        said = (one for one in self._state.outbox.deliveries.values() if one.intended.chat == chat)
        return any(one.state == "confirmed" and approval_id in one.intended.body for one in said)

    async def waiting_elsewhere(self, who: Answerer) -> list[AskStatus]:
        """What waits in other chats, for an approver who asks in their own."""
        if not who.is_direct or not self._is_approver(who):
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
        """The chat in which it is asked; a sub-agent asks where the session on top of it is."""
        return self._state.chats.get(await root_of(self._deps.store, ask.session_id))

    def _is_approver(self, who: Answerer) -> bool:
        return may_approve(self._options, self._state, who.user)

    async def _open(self, row: AskRow) -> "_Found | None":
        """The ask, if it is open."""
        session = await self._deps.inbox.state(row.session_id)
        run = session.runs.get(row.run_id)
        ask = run.asks.get(row.ask_id) if run is not None else None
        return _Found(row.session_id, ask) if ask is not None and ask.state == "open" else None

    async def _settle(self, found: "_Found", choice: str, who: Answerer) -> str:
        asked = found.ask.asked
        if isinstance(asked, e.QuestionAsked):
            answer = QuestionAnswer(choice, by=who.name, client_id=who.key)
            return _reply_to(await self._deps.inbox.answer(asked.ask_id, answer), ANSWERED)
        # Who talks with the agent alone may always deny what it asks for there.
        if not self._is_approver(who) and not (who.is_direct and choice == "deny"):
            return NOT_YOURS
        # Whatever a button or a command says: nobody allows what the chat doesn't show them.
        if choice != "deny" and not await self._is_shown_whole(found):
            return TOO_LONG
        assert isinstance(asked, e.ApprovalAsked)
        meant = _choice(asked, choice)
        if meant is None:
            return NOT_OFFERED
        result = await self._deps.inbox.answer(asked.ask_id, ApprovalVerdict(meant, by=who.name))
        return _reply_to(result, DENIED if meant == "deny" else ALLOWED)

    async def _is_shown_whole(self, found: "_Found") -> bool:
        """Whether a card shows all of it, or messages above its card do."""
        if is_shown_whole(found.ask, self._dialect.fits):
            return True
        cards = await self._cards_of(found.ask, await root_of(self._deps.store, found.session_id))
        return any(words_above(self._state.outbox, one, found.ask, self._dialect) for one in cards)

    async def _cards_of(self, ask: AskStatus, session_id: str) -> list[e.DeliveryIntended]:
        """The cards of an ask that are meant for the chat of a session, whoever began its run."""
        chat, ask_id = self._state.chats.get(session_id, ""), ask.asked.ask_id
        session = await self._deps.inbox.state(session_id)
        return [
            e.DeliveryIntended(at_ms=0, chat=chat, message=message, run=run.run_id)
            for run in session.runs.values()
            if ask_id in run.person_asks
            for message in (ask_id, f"{ask_id}{TO}{chat}")
        ]

    async def open_asks(self, *session_ids: str) -> list[AskStatus]:
        """The approvals and questions that wait in these sessions."""
        sessions = [await self._deps.inbox.state(session_id) for session_id in session_ids]
        runs = [run for session in sessions for run in session.runs.values()]
        # Sub-agents in the background may ask after the run that started them.
        return [ask for run in runs for ask in run.open_person_asks]

    async def is_on_card(self, ask: AskStatus) -> bool:
        """Whether the card of this ask is in its chat, so that people there know what is meant."""
        row = await self._deps.store.ask(ask.asked.ask_id)
        if row is None:
            return False
        intended = await self._cards_of(ask, await root_of(self._deps.store, row.session_id))
        cards = [self._state.outbox.deliveries.get(one.key) for one in intended]
        return any(card is not None and card.state == "confirmed" for card in cards)

    async def was_answered(self, who: Answerer) -> bool:
        """Whether this very message has answered a question already, before a crash."""
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
        """Whether the log has an answer with this key after the first question."""
        while records := await self._deps.store.read(session_id, after=after):
            answers = (one.event for one in records if isinstance(one.event, e.QuestionAnswered))
            if any(answer.client_id == key for answer in answers):
                return True
            after = records[-1].seq
        return False


def _reply_to(result: AnswerResult, done: str) -> str:
    """The text for the person who answered."""
    match result:
        case Answered():
            return done
        case Stale() | UnknownAsk():
            return STALE
        case AnswerNotOffered():
            return NOT_OFFERED


def _choice(asked: e.ApprovalAsked, text: str) -> Choice | None:
    """The choice that a button or command names, if the approval offers it."""
    return next((one for one in asked.choices if one == text), None)
