"""`holdfast approvals`: what waits for a person, the answer to it, and what was allowed for longer."""

import sys
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from holdfast.api.approvals import GrantShown, OpenAsk, OpenQuestion
from holdfast.cli.attach import FAILED, OK, Attached, with_reader, with_server
from holdfast.cli.ids import SHOWN_CHARS_MIN, resolve_id, resolve_session
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.cli.terminal.tool_output import answer_words
from holdfast.safe_text import exact, safe, safe_line

if TYPE_CHECKING:
    from holdfast.client import Client

EVERYWHERE = "everywhere"
RULE_ID_CHARS = 28
RULE_CHARS_MAX = 2_000
PAGE = 200
PAGES_MAX = 50


def list_asks(flags: Mapping[str, object], *, form: str) -> int:
    """Print all approvals and questions that are open."""

    async def work(reader: Reader) -> int:
        asks = await reader.approvals()
        if form == "json":
            print_json(asks)
        elif not asks:
            echo("No pending approvals or questions.")
        elif sys.stdout.isatty():
            # A list would cut it, and what is approved is read to its last letter.
            for one in asks:
                echo(f"{one.ask_id}  {when(one.asked_at)}  {one.run_id}\n{indent(_about(one), '    ')}")
        else:
            rows = [(one.ask_id, when(one.asked_at), one.run_id, _about(one)) for one in asks]
            print_columns(("ID", "ASKED", "RUN", "ABOUT"), rows)
        return OK

    return with_reader(flags, work)


def answer_ask(flags: Mapping[str, object], ask_id: str, answer: str, *, reason: str) -> int:
    """Answer one approval with a choice, or one question with a text."""

    async def work(attached: Attached) -> int:
        client = attached.client
        open_asks = {one.ask_id: one for one in await client.approvals()}
        # "apr_" alone would mean whatever is open now.
        whole = resolve_id(ask_id, [*open_asks], kind="pending request", chars_min=SHOWN_CHARS_MIN)
        asked = open_asks[whole]
        if isinstance(asked, OpenQuestion):
            await client.answer(asked.run_id, whole, answer=answer)
        else:
            words = answer_words(asked.choices, asked.offers)
            meant = words.get(answer.strip().lower())
            if meant is None:
                echo_error(f"holdfast: answer with one of: {', '.join(words)}")
                return FAILED
            await client.approve(asked.run_id, whole, choice=meant[0], reason=reason, width=meant[1])
        echo("Answered." if not attached.is_own else "Answered. The run continues when Holdfast next runs.")
        return OK

    return with_server(flags, work, works="nothing")


def list_rules(flags: Mapping[str, object], *, session: str, form: str) -> int:
    """Print what was allowed always, and in one session or in all."""

    async def work(attached: Attached) -> int:
        client = attached.client
        granted = await _rules(client, session)
        if form == "json":
            print_json(granted)
        elif not granted:
            echo("No standing rules besides the configuration.")
        elif sys.stdout.isatty():
            # A list would cut it, and what is allowed is read to its last letter.
            for one in granted:
                echo(f"{one.grant_id}  {one.session_id or EVERYWHERE}\n{indent(safe(one.says), '    ')}")
        else:
            print_columns(("ID", "WHERE", "ALLOWS"), [_rule(one) for one in granted])
        return OK

    return with_server(flags, work, works="nothing")


async def _rules(client: "Client", session: str) -> Sequence[GrantShown]:
    whole = await resolve_session(client, session)
    return await client.grants(session_id=whole) if whole else await _all_rules(client)


async def _all_rules(client: "Client") -> Sequence[GrantShown]:
    found: list[GrantShown] = []
    cursor = ""
    for _ in range(PAGES_MAX):
        page = await client.all_grants(limit=PAGE, cursor=cursor)
        found += page.data
        cursor = page.next_cursor or ""
        if not cursor:
            return found
    echo_error(f"holdfast: showing only the first {len(found)} rules")
    return found


def _rule(one: GrantShown) -> tuple[str, str, str]:
    return (one.grant_id, one.session_id or EVERYWHERE, safe_line(one.says, RULE_CHARS_MAX))


def revoke_rule(flags: Mapping[str, object], grant_id: str, *, session: str) -> int:
    """Ask again about what a rule allowed."""

    async def work(attached: Attached) -> int:
        client = attached.client
        whole = grant_id
        if len(grant_id) < RULE_ID_CHARS:
            known = [rule.grant_id for rule in await _rules(client, session)]
            whole = resolve_id(grant_id, known, kind="rule")
        await client.revoke_grant(whole, session_id=await resolve_session(client, session))
        echo("Revoked. These actions need approval again.")
        return OK

    return with_server(flags, work, works="nothing")


def _about(one: OpenAsk) -> str:
    if isinstance(one, OpenQuestion):
        choices = f" ({' / '.join(map(safe_line, one.choices))})" if one.choices else ""
        return safe(one.question) + choices
    findings = f"  [{'; '.join(one.findings)}]" if one.findings else ""
    headline = f"{one.headline}: " if one.headline else ""
    offers = "".join(
        f"\n{offer.rule.width}: would run {offer.covers}; would ask {offer.asks}" for offer in one.offers
    )
    because = f"\n{one.once_because}" if one.once_because else ""
    return exact(headline + one.command + findings + offers + because)
