"""Approvals and questions of `holdfast run`: prompted at the terminal, or denied without one."""

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from holdfast import events as e
from holdfast.cli.run_output import Output
from holdfast.cli.terminal.output import echo_colored
from holdfast.client.errors import ClientError, Refused
from holdfast.client.updates import AskEvent, ask_id, resolved_id
from holdfast.policy.tool_names import ASK_USER, UPDATE_PLAN
from holdfast.safe_text import exact, safe_line

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import Application

    from holdfast.cli.asks import AskMenu
    from holdfast.client import Client

NOBODY = "this run is unattended, so no one can approve it (no_approver)"
NO_ANSWER = "This run is unattended, so no one can answer (no_approver)."
HOW_TO_ALLOW = (
    "  To be prompted, run this in a terminal without piped input. To allow it without approval, add a rule\n"
    "  under [[approvals.rules]] in holdfast.toml{rule},\n"
    "  and restart the server if one is running. If it only changes the workspace, you can instead add\n"
    "  --mode workspace.\n"
)
HOW_TO_ACCEPT = (
    "  To accept a plan, run this in a terminal without piped input, or continue the session in the chat:\n"
    "  holdfast chat --session last\n"
)
AGAIN_S = 2.0  # an answer that came too late is settled in the log by then


def is_attended() -> bool:
    """Whether a person can answer here; the run's output may still go elsewhere."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class RunAsks:
    """Asks one thing after the other; another client may answer first."""

    def __init__(self, client: "Client", output: Output, *, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._client = client
        self._output = output
        self.refused = 0  # actions that were denied, because no one could approve them
        self._calls: dict[str, e.ToolAsked] = {}
        self._open: dict[str, AskEvent] = {}
        self._asking: asyncio.Task[None] | None = None
        self._about = ""

    async def hear(self, event: e.Event) -> None:
        """One more event of the run."""
        if isinstance(event, e.ApprovalAsked | e.QuestionAsked):
            if not is_attended():
                await self._refuse(event)
                return
            self._open[ask_id(event)] = event
            self._next()
        elif key := resolved_id(event):
            await self._settled(key)
        elif isinstance(event, e.ToolAsked):
            self._calls[event.tool_call_id] = event
        elif isinstance(event, e.ToolEnded) and event.ending == "no_approver":
            await self._refused_by_policy(event)

    async def close(self) -> None:
        """Stop asking."""
        self._open.clear()
        await self._settled(self._about)

    async def _settled(self, key: str) -> None:
        self._open.pop(key, None)
        if self._asking is not None and key == self._about:
            self._asking.cancel()
            await asyncio.wait({self._asking})
            self._asking, self._about = None, ""
            await self._output.resume()
            self._next()

    def _next(self) -> None:
        if self._asking is None and self._open:
            self._about, asked = next(iter(self._open.items()))
            self._asking = asyncio.create_task(self._asked(asked))

    async def _asked(self, asked: AskEvent) -> None:
        """Ask until an answer is accepted; cancelled when the ask is settled elsewhere."""
        while True:
            try:
                return await self._ask(asked)
            except ClientError as error:
                from holdfast.cli.terminal.style import Style

                await asyncio.to_thread(echo_colored, Style().line(f"✗ {safe_line(str(error))}", "red"))
                await asyncio.sleep(self._again_s)

    async def _ask(self, asked: AskEvent) -> None:
        # Most runs ask nothing.
        from holdfast.cli import asks
        from holdfast.cli.asks import AskMenu
        from holdfast.cli.terminal.style import Style
        from holdfast.cli.terminal.tool_output import ask_text

        await self._output.pause()
        style = Style()
        await asyncio.to_thread(echo_colored, ask_text(style, asked))
        if isinstance(asked, e.ApprovalAsked) and not asks.may_approve(await asks.key_scopes(self._client)):
            await asyncio.to_thread(echo_colored, style.line(f"  {asks.CANNOT_APPROVE}", "magenta"))
            return  # the log says when someone has answered
        menu = AskMenu(asked)
        prompt = _prompt_session(menu)
        while True:
            try:
                typed = await prompt.prompt_async("answer> ")
            except (KeyboardInterrupt, EOFError):
                await self._stop(asked.run_id)
                return
            answer = asks.read_answer(asked, typed)
            if not isinstance(answer, asks.Unclear):
                await asks.send_answer(self._client, asked, answer)
                return
            await asyncio.to_thread(echo_colored, style.dim(answer.hint))

    async def _stop(self, run_id: str) -> None:
        try:
            await self._client.stop(run_id)
        except Refused as error:
            if error.code != "run_not_found":
                raise

    async def _refused_by_policy(self, ended: e.ToolEnded) -> None:
        """Report actions that the mode "unattended" denied. Questions don't count."""
        asked = self._calls.get(ended.tool_call_id)
        if asked is None or asked.name == ASK_USER:
            return
        from holdfast.cli.terminal.tool_output import tool_words

        self.refused += 1
        await self._output.say(
            f"holdfast: denied, because no one can approve it: {tool_words(asked)}\n{self._how_to_allow('')}"
        )

    def _how_to_allow(self, rule: str) -> str:
        """The advice, in full for the first action; after that, only the rule for this one."""
        if self.refused == 1:
            return HOW_TO_ALLOW.format(rule=rule)
        return f"  {rule.strip()}\n" if rule else ""

    async def _refuse(self, asked: AskEvent) -> None:
        """Deny it, because silence is never consent, and say how to allow it."""
        if isinstance(asked, e.ApprovalAsked):
            self.refused += 1
            await self._output.say(self._refusal(asked))
            await self._client.approve(asked.run_id, asked.approval_id, choice="deny", reason=NOBODY)
        else:
            await self._output.say(f"holdfast: no one can answer: {exact(asked.text)}\n")
            await self._client.answer(asked.run_id, asked.question_id, answer=NO_ANSWER)

    def _refusal(self, asked: e.ApprovalAsked) -> str:
        """Say what was denied, and how to allow it."""
        summary = exact(asked.action.summary)
        if asked.action.tool == UPDATE_PLAN:
            return f"holdfast: no one can accept this plan:\n{summary}\n{HOW_TO_ACCEPT}"
        why = f"  {exact(asked.headline)}.\n" if asked.headline else ""
        advice = self._how_to_allow(_rule_for(asked))
        return f"holdfast: denied, because no one can approve it: {summary}\n{why}{advice}"


def _rule_for(asked: e.ApprovalAsked) -> str:
    """A rule for exactly this command, as it is written in the configuration."""
    rules = [
        offer.rule for offer in asked.offers if offer.rule.tool == "shell" and len(offer.rule.paths) == 1
    ]
    if not rules:
        return ""
    argv = msgspec.json.encode(rules[0].argv).decode()
    return f'\n  (allow = "shell", argv = {exact(argv)}, exact = true)'


def _prompt_session(menu: "AskMenu") -> "PromptSession[str]":
    from prompt_toolkit import ANSI, PromptSession
    from prompt_toolkit.key_binding import merge_key_bindings
    from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
    from prompt_toolkit.output import create_output

    from holdfast.cli.ask_keys import LoneEscape, MenuKeys
    from holdfast.cli.asks import GUARD_S
    from holdfast.cli.terminal.style import terminal_width

    escape = LoneEscape(time.monotonic)
    keys = MenuKeys(
        lambda: menu, answer=lambda line: session.app.exit(result=line), keep_early=lambda _: None
    )
    session: PromptSession[str] = PromptSession(
        key_bindings=merge_key_bindings([escape.bindings, keys.bindings]),
        placeholder=lambda: ANSI(f"\x1b[2m{menu.hint}\x1b[0m"),
        output=create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr),
        erase_when_done=True,
    )

    def drawn(app: "Application[str]") -> None:
        if menu.guard.drawn():
            asyncio.get_running_loop().call_later(GUARD_S, app.invalidate)

    app = session.app
    escape.watch(app)
    app.after_render += drawn
    above = FormattedTextControl(lambda: ANSI("\n".join(["", *menu.lines(terminal_width()), ""])))
    app.layout = Layout(
        HSplit([Window(above, dont_extend_height=True, wrap_lines=True), session.layout.container]),
        session.default_buffer,
    )
    return session
