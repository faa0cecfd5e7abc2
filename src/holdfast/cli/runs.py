"""`holdfast runs`: look at runs, follow them, stop them, try them again."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta

from holdfast import events as e
from holdfast.api.runs import RunListed, RunShown
from holdfast.cli.attach import FAILED, OK, Attached, with_reader, with_server
from holdfast.cli.ids import resolve_run, resolve_session
from holdfast.cli.reader import Reader
from holdfast.cli.run import EXIT_CODES, show_run_here
from holdfast.cli.run_output import output_for
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo
from holdfast.client.errors import Refused
from holdfast.client.updates import Seen
from holdfast.safe_text import exact, safe, safe_line

PAGE = 200
PAGES_MAX = 100


def list_runs(flags: Mapping[str, object], *, session: str, status: str, limit: int, form: str) -> int:
    """Print runs, newest first."""

    async def work(reader: Reader) -> int:
        found = await _found(reader, await resolve_session(reader, session), status=status, limit=limit)
        if form == "json":
            print_json(found)
        else:
            rows = [
                (run.run_id, status_words(run), when(run.created_at), _lasted(run), run.preview)
                for run in found
            ]
            print_columns(("RUN", "STATUS", "STARTED", "TOOK", "ABOUT"), rows)
        return OK

    return with_reader(flags, work)


async def _found(reader: Reader, session: str, *, status: str, limit: int) -> Sequence[RunListed]:
    """So many runs of this status: a page may hold fewer, since it is cut before they are looked at."""
    if status == "paused":
        from holdfast.cli.offline_reader import OfflineReader

        if not isinstance(reader, OfflineReader):
            return ()  # a server carries its runs out
    found: list[RunListed] = []
    cursor = ""
    for _ in range(PAGES_MAX):
        page = await reader.runs(
            session_id=session, status=status, limit=PAGE if status else min(limit, PAGE), cursor=cursor
        )
        found += page.data
        cursor = page.next_cursor or ""
        if len(found) >= limit or not cursor:
            break
    return found[:limit]


def show_run(flags: Mapping[str, object], run_id: str, *, form: str) -> int:
    """Print one run."""

    async def work(reader: Reader) -> int:
        run = await reader.run(await resolve_run(reader, run_id))
        if form == "json":
            print_json(run)
        else:
            echo("\n".join(_lines(run)))
        return OK

    return with_reader(flags, work)


def tail_run(flags: Mapping[str, object], run_id: str, *, form: str) -> int:
    """Tell a run from its beginning to its end; leaving does not stop it."""

    async def work(reader: Reader) -> int:
        output = output_for(form)
        ticking = asyncio.create_task(output.tick())
        try:
            async with aclosing(reader.watch(await resolve_run(reader, run_id))) as heard:
                async for one in heard:
                    await output.hear(one)
                    if isinstance(one, Seen) and isinstance(one.event, e.RunEnded):
                        await output.end(one.event)
                        return EXIT_CODES.get(one.event.outcome, FAILED)
        finally:
            ticking.cancel()
            await asyncio.wait({ticking})
            await output.close()
        await output.say("The run hasn't ended, and no server is working on it.\n")
        return FAILED

    return with_reader(flags, work)


def stop_run(flags: Mapping[str, object], name: str) -> int:
    """Stop a run, and wait until it has stopped."""

    async def work(attached: Attached) -> int:
        client = attached.client
        run_id = await resolve_run(client, name)
        try:
            await client.stop(run_id)
        except Refused as error:
            if error.code != "run_not_found":
                raise
            run = await client.run(run_id)  # unknown, or over already
            echo(f"{run.run_id} {run.status} (already ended)")
            return OK
        if attached.is_own:
            echo("No server is running. The run will be stopped when one starts.")
            return OK
        run = await client.ended(run_id)
        echo(f"{run.run_id} {run.status}")
        return OK

    return with_server(flags, work, works="nothing")


def retry_run(flags: Mapping[str, object], run_id: str, *, session: str, form: str) -> int:
    """Answer the same input anew, and tell that run as `holdfast run` does."""

    async def work(attached: Attached) -> int:
        client = attached.client
        of, where = await resolve_run(client, run_id), await resolve_session(client, session)
        started = await client.retry(of, session_id=where)
        return await show_run_here(client, started, form=form)

    return with_server(flags, work)


def status_words(run: RunListed | RunShown) -> str:
    """The status in a person's words; the outcome beside it where the status alone would mislead."""
    if run.waiting_for == "answer":
        return "waiting_for_answer"
    if run.outcome in {"refused", "truncated", "budget"}:
        return f"{run.status} ({run.outcome})"
    if run.refused_actions:
        actions = "action" if run.refused_actions == 1 else "actions"
        return f"{run.status}, {run.refused_actions} {actions} refused"
    return run.status


def _lasted(run: RunListed | RunShown) -> str:
    seconds = max(0, round(run.updated_at - run.created_at))
    return str(timedelta(seconds=seconds)) if run.outcome else "-"


def _lines(run: RunShown) -> list[str]:
    lines = [
        f"run      {run.run_id}",
        f"session  {run.session_id}",
        f"about    {safe_line(run.preview) or '-'}",
        f"status   {status_words(run)}" + (f" ({safe_line(run.cause)})" if run.cause else ""),
        f"model    {safe_line(run.model)}",
        f"started  {when(run.created_at)}",
        f"took     {_lasted(run)}",
    ]
    if run.usage is not None:
        cost = "" if run.usage.cost_usd is None else f", {run.usage.cost_usd:.4f} USD"
        lines.append(f"usage    {run.usage.input_tokens} tokens in, {run.usage.output_tokens} out{cost}")
    if run.queue_position:
        why = f": {safe_line(run.queue_reason)}" if run.queue_reason else ""
        lines.append(f"waiting  number {run.queue_position} in the queue{why}")
    if run.approval is not None:
        lines.append(f"waiting  for approval ({run.approval.approval_id}): {exact(run.approval.command)}")
    if run.question is not None:
        lines.append(
            f"waiting  for an answer ({run.question.question_id}): {safe_line(run.question.question)}"
        )
    if run.error:
        lines.append(f"error    {safe_line(run.error)}")
    if run.hint:
        lines.append(f"hint     {safe_line(run.hint)}")
    if run.output:
        lines += ["", safe(run.output)]
    return lines
