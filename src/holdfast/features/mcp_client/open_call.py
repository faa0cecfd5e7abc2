"""A call in progress: its deadlines, and what the server may ask the person meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from holdfast.features.mcp_client.forms import (
    DECLINE,
    SKIP,
    BadForm,
    FieldMismatch,
    FormField,
    FormValue,
    fields_of,
    from_object,
)
from holdfast.features.mcp_client.tool_specs import plain
from holdfast.interfaces.tool import NobodyAnswered, ToolCall

QUESTIONS_MAX = 60  # per call, so that a server cannot ask for ever
TRIES_MAX = 3  # answers to one field that do not fit
ACCEPT = "Accept"
OPENED = "I've opened it"
URL_CHARS_MAX = 2_000
WARNING = (
    "Warning: this looks like a request for a password or another secret. MCP servers must not ask for "
    "secrets in a form. Your answer is sent to {server} and stored in this conversation. Decline unless "
    "you're sure."
)
_MESSAGE_CHARS = 3_000
_OVER = "The call has ended, so the user wasn't prompted."
_CANCEL = ElicitResult(action="cancel")
_DECLINED = ElicitResult(action="decline")


class CallTimer:
    """The deadlines of one call, paused while a person is prompted."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines: dict[asyncio.Timeout, float] = {}
        self._asks = 0
        self._asked_s = 0.0  # how long people were asked
        self._asking_since_s = 0.0

    def now_s(self) -> float:
        """The time on the call's own clock."""
        until_s = self._asking_since_s if self._asks else self._loop.time()
        return until_s - self._asked_s

    @asynccontextmanager
    async def until(self, deadline_s: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """Raise TimeoutError at that time on the call's clock."""
        is_bound = deadline_s is not None
        ends_s = deadline_s + self._asked_s if is_bound and not self._asks else None
        async with asyncio.timeout_at(ends_s) as timeout:
            if is_bound:
                self._deadlines[timeout] = deadline_s
            try:
                yield timeout
            finally:
                self._deadlines.pop(timeout, None)

    @contextmanager
    def asking(self) -> Generator[None]:
        """Stop the clock."""
        if not self._asks:
            self._asking_since_s = self._loop.time()
            for timeout in self._deadlines:
                timeout.reschedule(None)
        self._asks += 1
        try:
            yield
        finally:
            self._asks -= 1
            if not self._asks:
                self._asked_s += self._loop.time() - self._asking_since_s
                for timeout, deadline_s in self._deadlines.items():
                    timeout.reschedule(deadline_s + self._asked_s)


@dataclass(eq=False, slots=True)
class OpenCall:
    """One call of one tool, as the connection knows it."""

    server: str
    call: ToolCall
    timer: CallTimer = field(default_factory=CallTimer)
    questions: int = 0
    task_id: str = ""  # of a task that the server runs for it
    is_over: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asking: "set[asyncio.Future[str]]" = field(default_factory=set["asyncio.Future[str]"])

    async def elicit(self, wanted: ElicitRequestParams) -> ElicitResult:
        """Ask the person what the server wants to know; silence is never an answer."""
        with self.timer.asking():
            async with self._turn:  # people answer one question after the other
                try:
                    if isinstance(wanted, ElicitRequestURLParams):
                        return await self._link(wanted)
                    return await self._form(wanted)
                except NobodyAnswered as error:
                    return _DECLINED if error.ending == "denied" else _CANCEL

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """Ask, within limits; raises NobodyAnswered."""
        self.questions += 1
        if self.questions > QUESTIONS_MAX:
            raise NobodyAnswered(f"The MCP server {self.server} sent too many requests.")
        with self.timer.asking():
            return await self._asked(text, choices)

    async def _asked(self, text: str, choices: tuple[str, ...]) -> str:
        # A separate task: the server's request may outlive the call, but the question mustn't.
        if self.is_over:
            raise NobodyAnswered(_OVER)
        asking = asyncio.ensure_future(self.call.ask(text, choices))
        self._asking.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            if self.is_over:
                raise NobodyAnswered(_OVER) from None
            raise
        finally:
            self._asking.discard(asking)

    async def close(self) -> None:
        """Withdraw open questions, and ask no more."""
        self.is_over = True
        for asking in self._asking:
            asking.cancel()
        if self._asking:
            await asyncio.wait(self._asking.copy())

    async def _link(self, wanted: ElicitRequestURLParams) -> ElicitResult:
        host = safe_host(wanted.url)
        if not host:
            raise BadForm("its link isn't safe to open in a browser")
        message = plain(wanted.message, chars_max=_MESSAGE_CHARS, keep="\n")
        text = (
            f"The MCP server {self.server} asks you to open a page on "
            f"{host}:\n{wanted.url}\n\n{message}\n\nHoldfast doesn't open it. Check the URL, then open it "
            "in your browser and follow the steps."
        )
        answer = await self.ask(text, (OPENED, DECLINE))
        return ElicitResult(action="accept") if answer.strip() == OPENED else _refusal(answer)

    async def _form(self, wanted: ElicitRequestFormParams) -> ElicitResult:
        fields = fields_of(wanted.requested_schema)
        message = plain(wanted.message, chars_max=_MESSAGE_CHARS, keep="\n")
        intro = f"The MCP server {self.server} asks: {message}"
        if not fields:
            answer = await self.ask(intro, (ACCEPT, DECLINE))
            is_accepted = answer.strip().casefold() in {"accept", "yes", "ok"}
            return ElicitResult(action="accept", content={}) if is_accepted else _refusal(answer)
        filled: dict[str, FormValue] = {}
        for index, one in enumerate(fields):
            others = [other.title or plain(other.name, chars_max=100) for other in fields[index + 1 :]]
            place = f" ({index + 1} of {len(fields)})" if len(fields) > 1 else ""
            then = f"\nNext: {', '.join(others)}" if others else ""
            warning = f"{WARNING.format(server=self.server)}\n\n" if one.wants_secret else ""
            text = f"{warning}{intro}\n\n{one.shown()}{place}{then}"
            found = await self._field(one, text, whole=fields if index == 0 else ())
            if isinstance(found, ElicitResult):
                return found
            filled |= found
        return ElicitResult(action="accept", content=dict(filled))

    async def _field(
        self, one: FormField, text: str, *, whole: tuple[FormField, ...]
    ) -> dict[str, FormValue] | ElicitResult:
        """The field's value under its name, or how the form ended."""
        choices = (*one.choices, *((SKIP,) if one.is_optional else ()), DECLINE)
        why = ""
        for _ in range(TRIES_MAX):
            answer = await self.ask(f"{why}{text}"[:8_000], choices)
            # A text may be any word, so the choice counts first; an option may have the name of the choice.
            if one.kind == "text" and (ending := _without_value(one, answer)) is not None:
                return ending
            try:
                if (form := from_object(whole, answer)) is not None:
                    return ElicitResult(action="accept", content=dict(form))
                return {one.name: one.value_of(answer)}
            except FieldMismatch as error:
                if (ending := _without_value(one, answer)) is not None:
                    return ending
                why = f"{error}\n\n"
        return _CANCEL


CURRENT_CALL: ContextVar[OpenCall | None] = ContextVar("mcp_call", default=None)


def safe_host(url: str) -> str:
    """The host of a link that can be shown to a person, in ASCII; empty if it should not be shown."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, UnicodeError):
        return ""
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= URL_CHARS_MAX
    if not is_plain or parts.scheme not in {"http", "https"} or "@" in parts.netloc or "\\" in url:
        return ""
    return host


def _without_value(one: FormField, answer: str) -> dict[str, FormValue] | ElicitResult | None:
    """Interpret an answer without a value; None if it has one."""
    word = answer.strip().casefold()
    if word == SKIP.casefold() and one.is_optional:
        return {} if one.default is None else {one.name: one.default}
    return _refusal(answer) if word in {DECLINE.casefold(), "cancel"} else None


def _refusal(answer: str) -> ElicitResult:
    return _CANCEL if answer.strip().casefold() == "cancel" else _DECLINED
