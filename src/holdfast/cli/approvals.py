"""`holdfast approvals`: what waits for a person, the answer to it, and what was allowed for longer."""

import sys
from collections.abc import Mapping
from textwrap import indent

from holdfast.cli.attach import FAILED, OK, Attached, reading, with_server
from holdfast.cli.columns import print_columns, print_json, when
from holdfast.cli.reads import Reads
from holdfast.cli.safe_text import exact, safe, safe_line
from holdfast.client.answers import OpenAsk
from holdfast.values import Choice


def list_asks(flags: Mapping[str, object], *, form: str) -> int:
    """Print all approvals and questions that are open."""

    async def work(reads: Reads) -> int:
        asks = await reads.approvals()
        if form == "json":
            print_json(asks)
        elif not asks:
            print("Nothing waits for you.")
        elif sys.stdout.isatty():
            # A list would cut it, and what is approved is read to its last letter.
            for one in asks:
                print(f"{one.ask_id}  {when(one.asked_at)}  {one.run_id}\n{indent(_about(one), '    ')}")
        else:
            rows = [(one.ask_id, when(one.asked_at), one.run_id, _about(one)) for one in asks]
            print_columns(("ID", "ASKED", "RUN", "ABOUT"), rows)
        return OK

    return reading(flags, work)


def answer_ask(flags: Mapping[str, object], ask_id: str, answer: str, *, reason: str) -> int:
    """Answer one approval with a choice, or one question with a text."""

    async def work(attached: Attached) -> int:
        client = attached.client
        asked = next((one for one in await client.approvals() if one.ask_id == ask_id), None)
        if asked is None:
            print(f"holdfast: nothing open has the id {safe_line(ask_id, 80)}", file=sys.stderr)
            return FAILED
        if asked.kind == "question":
            await client.answer(asked.run_id, ask_id, answer=answer)
        else:
            choice = _choice(asked, answer)
            if choice is None:
                print(f"holdfast: answer with one of: {', '.join(asked.choices)}", file=sys.stderr)
                return FAILED
            await client.approve(asked.run_id, ask_id, choice=choice, reason=reason)
        print("Answered." if not attached.is_own else "Answered; the run goes on when Holdfast next runs.")
        return OK

    return with_server(flags, work, works="nothing")


def list_rules(flags: Mapping[str, object], *, session: str, form: str) -> int:
    """Print what was allowed always, and in one session."""

    async def work(attached: Attached) -> int:
        granted = await attached.client.grants(session_id=session)
        if form == "json":
            print_json(granted)
        elif not granted:
            print("Nothing is allowed beyond the configuration.")
        else:
            rows = [(one.grant_id, one.scope, safe_line(one.says, 2_000)) for one in granted]
            print_columns(("ID", "WHERE", "ALLOWS"), rows)
        return OK

    return with_server(flags, work, works="nothing")


def revoke_rule(flags: Mapping[str, object], grant_id: str, *, session: str) -> int:
    """Ask again about what a rule allowed."""

    async def work(attached: Attached) -> int:
        await attached.client.revoke_grant(grant_id, session_id=session)
        print("Revoked: it is asked about again.")
        return OK

    return with_server(flags, work, works="nothing")


def _choice(asked: OpenAsk, answer: str) -> Choice | None:
    word = answer.strip().lower()
    if word not in asked.choices:
        return None
    match word:
        case "once" | "session" | "always" | "deny":
            return word
        case _:
            return None


def _about(one: OpenAsk) -> str:
    if one.kind == "question":
        choices = f" ({' / '.join(one.choices)})" if one.choices else ""
        return safe(one.question) + choices
    findings = f"  [{'; '.join(one.findings)}]" if one.findings else ""
    return exact(one.command) + findings
