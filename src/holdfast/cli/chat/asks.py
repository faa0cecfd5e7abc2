"""Approvals and questions in the chat: shown in place, answered by a word in the input line."""

from typing import TYPE_CHECKING, assert_never

from holdfast import events as e
from holdfast.cli.asking import Reply, Unclear, Verdict, read_answer
from holdfast.cli.terminal.phrases import approval_text, question_text
from holdfast.cli.terminal.renderer import Asked, ask_id
from holdfast.client.errors import Refused
from holdfast.safe_text import safe_line
from holdfast.values import GrantRule

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import Chat
    from holdfast.cli.chat.prompt import Typed


class ChatAsks:
    """Shows one ask after the other; the teller knows which are open."""

    def __init__(self, chat: "Chat") -> None:
        self._chat = chat
        self._shown = ""

    def clear(self) -> None:
        """Nothing is asked any more."""
        self._shown = ""
        self._chat.prompt.resume()

    async def hear(self) -> None:
        """Keep up with what is asked and what is settled."""
        asks = self._chat.teller.asks
        if self._shown and self._shown not in asks:
            self.clear()
        if not self._shown and asks:
            await self._show(next(iter(asks.values())))

    async def take(self, typed: "Typed") -> None:
        """The person's answer; it counts for what was on the screen, and for nothing else."""
        chat = self._chat
        asked = chat.teller.asks.get(typed.about)
        if asked is None:
            await chat.prompt.print(chat.ink.dim("  That was answered already."))
            return
        answer = read_answer(asked, typed.line)
        try:
            match answer:
                case Unclear():
                    await chat.prompt.print(chat.ink.dim(f"  {answer.hint}"))
                case Verdict():
                    await chat.client.approve(
                        asked.run_id, ask_id(asked), choice=answer.choice, reason=answer.reason
                    )
                case Reply():
                    await chat.client.answer(asked.run_id, ask_id(asked), answer=answer.text)
                    await chat.prompt.print(chat.ink.dim(f"  you said: {safe_line(answer.text, 200)}"))
                case _:
                    assert_never(answer)
        except Refused as error:
            # Somebody else was quicker, or it expired: the log says which, and it is on its way.
            await chat.complain(error)

    async def _show(self, asked: Asked) -> None:
        chat = self._chat
        self._shown = ask_id(asked)
        if isinstance(asked, e.QuestionAsked):
            text = question_text(chat.ink, asked)
        else:
            text = approval_text(chat.ink, asked, await self._rule(asked))
        chat.prompt.ask(self._shown)
        await chat.prompt.print(text)

    async def _rule(self, asked: e.ApprovalAsked) -> GrantRule | None:
        if not {"session", "always"} & set(asked.choices):
            return None
        try:
            return await self._chat.client.rule(asked.run_id, asked.approval_id, choice="session")
        except Refused:
            return None
