"""Approvals and questions in the chat: shown in place, answered by a key or in the input line."""

from typing import TYPE_CHECKING

from holdfast import events as e
from holdfast.cli.asks import CANNOT_APPROVE, QuestionReply, Unclear, read_answer, send_answer
from holdfast.cli.terminal.tool_output import ask_text
from holdfast.client.errors import Refused
from holdfast.client.updates import AskEvent, ask_id
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen
    from holdfast.cli.chat.prompt import Typed


class ChatAsks:
    """Shows one ask after the other; the renderer knows which are open."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._shown = ""

    def clear(self) -> None:
        """Take back what is asked."""
        self._shown = ""
        self._chat.prompt.resume()

    async def update(self) -> None:
        """Show the next open request, and remove one that is resolved."""
        asks = self._chat.renderer.asks
        if self._shown and self._shown not in asks:
            self.clear()
        if not self._shown and asks:
            await self._show(next(iter(asks.values())))

    async def take(self, typed: "Typed") -> None:
        """Send the person's answer. It counts only for the ask that was on the screen."""
        chat = self._chat
        asked = chat.renderer.asks.get(typed.about)
        if asked is None:
            await chat.prompt.print(chat.style.dim("  Already answered."))
            return
        answer = read_answer(asked, typed.line)
        if isinstance(answer, Unclear):
            await chat.prompt.print(chat.style.dim(f"  {answer.hint}"))
            return
        try:
            await send_answer(chat.client, asked, answer)
        except Refused as error:
            # Someone else answered first, or it expired; the event that says which is on its way.
            await chat.complain(error)
            return
        if isinstance(answer, QuestionReply):
            await chat.prompt.print(chat.style.dim(f"  You said: {safe_line(answer.text, 200)}"))

    async def _show(self, asked: AskEvent) -> None:
        chat = self._chat
        self._shown = ask_id(asked)
        text = ask_text(chat.style, asked)
        if isinstance(asked, e.ApprovalAsked) and not chat.can_approve:
            await chat.prompt.print(text + chat.style.line(f"  {CANNOT_APPROVE}", "magenta"))
            return
        # The card first: the keys count only after the menu below it is drawn.
        await chat.prompt.print(text)
        if self._shown == ask_id(asked):  # it may be settled by now
            chat.prompt.ask(self._shown, asked)
