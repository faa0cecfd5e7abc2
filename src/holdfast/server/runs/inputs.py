"""Inputs to runs over HTTP: stop, steer, approve, answer, retry, compact, try now."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.approvals import (
    AnswerRequest,
    ApprovalRequest,
    ApprovalSettled,
    AskList,
    OpenAsk,
    QuestionSettled,
    RulePreview,
)
from holdfast.api.runs import GateRequest, GateTried, RetryRequest, SayRequest, Stopping, StopRequest
from holdfast.api.sessions import CompactRequest
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.interfaces.journal import KeyConflict, Replayed
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.safe_text import safe_line
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.contents import Attached, content_of, keep_attached, parts_in, without_secrets
from holdfast.server.deps import RouteDeps
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request, run_not_found, session_not_found
from holdfast.server.runs.requests import too_many_parts
from holdfast.server.runs.responses import accepted, not_sent, reserved_place, started
from holdfast.server.runs.run_state import open_ask_of, run_state, waits_for_someone
from holdfast.server.runs.runs import known_run, row_of
from holdfast.server.sessions.roots import root_of
from holdfast.server.sessions.sessions import session_of
from holdfast.server.streams import hermes
from holdfast.server.transport.bodies import decoded, flag, json_response, parsed, read_body, truth
from holdfast.server.transport.once import earlier_response, once_for, once_key, replayed
from holdfast.tools.plan import STEP_CHARS_MAX, STEPS_MAX
from holdfast.values import Choice, GrantRule, PlanStep, Width

_CHOICES = ("once", "session", "always", "deny")
_LASTING = frozenset(("session", "always"))


@dataclass(frozen=True, slots=True)
class ApprovalVerdict:
    """What a person decided about an action, and whose key said so."""

    choice: Choice
    by: str
    reason: str = ""
    width: Width = "exact"
    steps: tuple[PlanStep, ...] = ()


def approval_choice(given: str) -> Choice:
    """The choice by any of its names; raises a Problem."""
    choice = hermes.ALIASES.get(given.strip().lower(), given.strip().lower())
    if choice not in _CHOICES:
        raise bad_request(
            f"'choice' must be one of {', '.join(_CHOICES)}", param="choice", code="invalid_approval_choice"
        )
    return choice


class RunInputRoutes:
    """The routes that send input to a run."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def stop(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/stop and /cancel."""
        deps = self._deps
        await decoded(request, deps.limits, StopRequest)
        row = await row_of(deps, request)
        if not await deps.inbox.stop(row.session_id, row.run_id, by=_who(request)):
            if not flag(request, "total"):
                raise run_not_found(row.run_id)
            row = await row_of(deps, request)
            return json_response(run_state(await deps.folds.run(row), row))
        return json_response(Stopping(run_id=row.run_id, status="stopping"))

    async def say(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/steer and /messages."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        said = await parsed(body, deps.limits, SayRequest)
        await deps.put_images_inline(said.message, param="message")
        message = _message_of(said, deps.limits)
        row = await row_of(deps, request)
        key = once_for(request, body, deps, session_id=row.session_id, message=message)
        if (earlier := await earlier_response(key, deps, status=200)) is not None:
            return earlier
        shown = partial(accepted, waiting_for=waits_for_someone(await self._run(row)))
        once = key.for_sent(shown) if key else None
        # Only what is queued may have to wait for a slot.
        async with reserved_place(deps) if said.mode == "queue" else nullcontext():
            message = await without_secrets(message, deps.redactor)
            await keep_attached(deps, message.parts, attached=message.attached, param="message")
            if said.mode == "queue":
                sent = await deps.inbox.send(row.session_id, message, once=once)
            else:
                sent = await deps.inbox.steer(
                    row.session_id, row.run_id, message=message, mode=said.mode, once=once
                )
        match sent:
            case Sent():
                return json_response(shown(sent))
            case NotSent():
                raise not_sent(sent)
            case Replayed() | KeyConflict():
                return replayed(sent, status=200)

    async def retry(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/retry."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, RetryRequest)
        run_id: str = request.path_params["run_id"]
        if not wanted.session_id:
            session_id = (await row_of(deps, request)).session_id
        else:
            session_id = await self._inherited(run_id, wanted.session_id)
        key = once_key(request, body, deps)
        if (earlier := await earlier_response(key, deps, status=202)) is not None:
            return earlier
        once = key.for_sent(started) if key else None
        async with reserved_place(deps):
            return _started_alone(await deps.inbox.retry(session_id, run_id, once=once))

    async def compact(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/compact."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, CompactRequest)
        session_id = (await session_of(deps, request)).row.session_id
        key = once_key(request, body, deps)
        if (earlier := await earlier_response(key, deps, status=202)) is not None:
            return earlier
        once = key.for_sent(started) if key else None
        focus = safe_line(wanted.focus)
        async with reserved_place(deps):
            return _started_alone(
                await deps.inbox.compact(session_id, focus, client_id=wanted.client_id, once=once)
            )

    async def _inherited(self, run_id: str, session_id: str) -> str:
        """The named session, if its log has the run; a fork has runs from its source."""
        found = await self._deps.store.session(session_id)
        if found is None or found.purge_at_ms:
            raise session_not_found(session_id)
        if run_id not in (await self._deps.inbox.state(session_id)).runs:
            raise run_not_found(run_id)
        return session_id

    async def gate(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/gate."""
        deps = self._deps
        await decoded(request, deps.limits, GateRequest)
        row = await row_of(deps, request)
        run = await self._run(row)
        if run.outcome is not None or not run.gate_until_ms or deps.options.try_now is None:
            raise Problem(409, "The run isn't waiting for a provider", code="not_gated")
        passed = await deps.options.try_now(run.target)
        return json_response(GateTried(run_id=row.run_id, status="trying" if passed else "tried"))

    async def approve(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/approval."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, ApprovalRequest)
        all_of_them = truth(wanted.all, param="all") or truth(wanted.resolve_all, param="resolve_all")
        choice = approval_choice(wanted.choice)
        row = await row_of(deps, request)
        run = await self._run(row)
        asked = await self._not_settled(
            _wanted_approvals(run, wanted.approval_id, all_of_them=all_of_them), row
        )
        verdict = ApprovalVerdict(
            choice,
            by=_who(request),
            reason=wanted.reason or "",
            width=wanted.width,
            steps=_changed_plan(wanted, asked),
        )
        resolved = await self.settle(asked, verdict)
        if not resolved:
            raise _stale()
        approval_id = asked[0].approval_id if len(asked) == 1 else ""
        return json_response(
            ApprovalSettled(run_id=row.run_id, choice=choice, resolved=resolved, approval_id=approval_id)
        )

    async def _not_settled(self, asked: Sequence[e.ApprovalAsked], row: RunRow) -> list[e.ApprovalAsked]:
        """Those that are open in the log of the one who asks; a parent's log learns it a moment later."""
        own = [one for one in asked if one.run_id == row.run_id]
        others = [one for one in asked if one.run_id != row.run_id]
        rows = {one.ask_id: await self._deps.store.ask(one.ask_id) for one in others}
        now_ms = self._deps.clock.now_ms()
        found = [one for one in others if (known := rows[one.ask_id]) and known.is_open_at(now_ms)]
        if asked and not (own or found):
            raise _stale()
        return [*own, *found]

    async def settle(self, asked: Sequence[e.ApprovalAsked], verdict: "ApprovalVerdict") -> int:
        """Answer these approvals, each in the log of the run that asks; returns how many were still open.

        Raises a Problem, and settles nothing, if one of them doesn't offer the choice.
        """
        for one in asked:
            check_choice(verdict.choice, one)
        rows = [await known_run(self._deps, one.run_id) for one in asked]
        # All rules before the first answer: one that is not offered settles nothing.
        rules = [
            await self._offered(row, one, verdict.width)
            if verdict.choice in _LASTING
            else _no_width(one, verdict.width)
            for row, one in zip(rows, asked, strict=True)
        ]
        resolved = 0
        for row, one, rule in zip(rows, asked, rules, strict=True):
            answered = e.ApprovalAnswered(
                at_ms=self._deps.clock.now_ms(),
                run_id=row.run_id,
                approval_id=one.approval_id,
                choice=verdict.choice,
                by=verdict.by,
                reason=verdict.reason,
                width=verdict.width,
                steps=verdict.steps,
            )
            resolved += await self._deps.inbox.answer_approval(row.session_id, answered, rule=rule)
        return resolved

    async def answer(self, asked: e.QuestionAsked, answer: str, *, by: str) -> bool:
        """Answer the question in the log of the run that asks; False if it is settled."""
        row = await known_run(self._deps, asked.run_id)
        answered = e.QuestionAnswered(
            at_ms=self._deps.clock.now_ms(),
            run_id=row.run_id,
            question_id=asked.question_id,
            answer=answer,
            by=by,
        )
        return await self._deps.inbox.answer_question(row.session_id, answered)

    async def approvals(self, request: Request) -> Response:
        """GET /v1/approvals."""
        del request
        deps = self._deps
        data: list[OpenAsk] = []
        for ask in await deps.store.open_asks():
            row = await deps.store.run(ask.run_id)
            found = await deps.store.read(ask.session_id, after=ask.seq - 1, limit=1)
            shown = open_ask_of(ask.session_id, found[0].event) if found else None
            if row is not None and shown is not None:
                root = await root_of(deps.store, ask.session_id)
                data.append(replace(shown, root_session_id=root if root != ask.session_id else ""))
        return json_response(AskList(data=tuple(data)))

    async def rule(self, request: Request) -> Response:
        """GET /v1/runs/{run_id}/approval/{approval_id}/rule."""
        row = await row_of(self._deps, request)
        choice = request.query_params.get("choice", "session")
        if choice != "session" and choice != "always":  # noqa: PLR1714  # type checkers follow this form
            raise bad_request("'choice' must be session or always", param="choice")
        run = await self._run(row)
        ask = run.person_asks.get(request.path_params["approval_id"])
        if ask is None or not isinstance(ask.asked, e.ApprovalAsked):
            raise Problem(
                404, "The run has no approval with this id", code="approval_not_found", param="approval_id"
            )
        width = request.query_params.get("width", "exact")
        if width != "exact" and width != "similar":  # noqa: PLR1714  # type checkers follow this form
            raise bad_request("'width' must be exact or similar", param="width")
        rule = await self._rule(await known_run(self._deps, ask.asked.run_id), ask.asked, width)
        return json_response(
            RulePreview(approval_id=ask.asked.approval_id, choice=choice, rule=rule, width=width)
        )

    async def question(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/question/{question_id}, and hermes-webui's names for it."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, AnswerRequest)
        answer = wanted.answer if wanted.answer is not None else wanted.response
        if answer is None:
            raise bad_request("Missing 'answer'", param="answer")
        row = await row_of(deps, request)
        run = await self._run(row)
        question_id: str = request.path_params.get("question_id") or wanted.clarify_id or _only_question(run)
        ask = run.person_asks.get(question_id)
        if ask is None or not isinstance(ask.asked, e.QuestionAsked):
            raise Problem(
                404, "The run has no question with this id", code="question_not_found", param="question_id"
            )
        if not await self.answer(ask.asked, answer, by=_who(request)):
            raise Problem(
                409,
                "The question was already answered, or it expired or was withdrawn",
                code="question_stale",
            )
        return json_response(QuestionSettled(run_id=row.run_id, question_id=question_id, status="answered"))

    async def _run(self, row: RunRow) -> Run:
        return (await self._deps.folds.run(row)).state

    async def _offered(self, row: RunRow, asked: e.ApprovalAsked, width: Width) -> GrantRule | None:
        """The rule to store; raises a Problem if there is none of this width."""
        rule = await self._rule(row, asked, width)
        return _no_width(asked, width) if rule is None else rule

    async def _rule(self, row: RunRow, asked: e.ApprovalAsked, width: Width) -> GrantRule | None:
        """What "session" and "always" would store; the judge looks at files, so it works in a thread."""
        agent = self._deps.agent
        state = await self._deps.inbox.state(row.session_id)
        run = state.runs[row.run_id]
        workspace = Path(run.settings.workspace or agent.workspace)
        grants = [grant.rule for grant in state.grants.values()]
        return await asyncio.to_thread(
            agent.judge.in_mode(state.approval_mode).rule,
            asked.action,
            grants,
            workspace=workspace,
            width=width,
        )


def _started_alone(sent: Sent | NotSent | Replayed | KeyConflict) -> Response:
    """The response about a run that may only start while no other is open."""
    match sent:
        case Sent():
            return json_response(started(sent), 202)
        case NotSent("busy"):
            text = "The session has an active run or waiting messages. Stop the run, or clear the queue"
            raise Problem(409, text, code="session_busy")
        case NotSent():
            raise not_sent(sent)
        case Replayed() | KeyConflict():
            return replayed(sent, status=202)


def _wanted_approvals(run: Run, approval_id: str | None, *, all_of_them: bool) -> list[e.ApprovalAsked]:
    """Exactly the approvals that the verdict is for; raises a Problem instead of guessing."""
    pending = [ask.asked for ask in run.open_person_asks if isinstance(ask.asked, e.ApprovalAsked)]
    if approval_id is not None:
        known = run.person_asks.get(approval_id)
        if known is None or not isinstance(known.asked, e.ApprovalAsked):
            raise Problem(
                409, "The run has no approval with this id", code="approval_stale", param="approval_id"
            )
        if known.state != "open":
            raise _stale()
        return [known.asked]
    if run.outcome is not None and not pending:
        raise Problem(409, "The run has ended", code="approval_not_active")
    if not pending:
        raise Problem(409, "This run has no open approval", code="approval_not_pending")
    if len(pending) > 1 and not all_of_them:
        raise Problem(
            409,
            f"{len(pending)} approvals are open. Choose one with 'approval_id', or send 'all'",
            code="approval_ambiguous",
            param="approval_id",
        )
    return pending


def _only_question(run: Run) -> str:
    """The one open question; empty if there is none. Raises a Problem instead of guessing."""
    asks = [ask.asked for ask in run.open_person_asks]
    ids = [asked.question_id for asked in asks if isinstance(asked, e.QuestionAsked)]
    if len(ids) > 1:
        text = f"{len(ids)} questions are open. Choose one with 'clarify_id'"
        raise Problem(409, text, code="question_ambiguous", param="clarify_id")
    return ids[0] if ids else ""


def check_choice(choice: str, asked: e.ApprovalAsked) -> None:
    """Raise a Problem if the approval doesn't offer the choice."""
    if choice not in asked.choices:
        raise bad_request(
            f"'choice' must be one of {', '.join(asked.choices)} for {asked.action.summary[:80]}",
            param="choice",
            code="invalid_approval_choice",
        )


def _no_width(asked: e.ApprovalAsked, width: Width) -> None:
    """An answer without a rule; raises a Problem if it asks for a wide one."""
    if width == "similar":
        raise bad_request(
            f"'width' can't be similar with this choice for {asked.action.summary[:80]}",
            param="width",
            code="invalid_approval_choice",
        )


def _changed_plan(wanted: ApprovalRequest, asked: Sequence[e.ApprovalAsked]) -> tuple[PlanStep, ...]:
    """The plan as the person changed it; raises a Problem if it is none, or if no plan was asked about."""
    steps = wanted.steps
    if steps is None:
        return ()
    if any(one.action.tool != UPDATE_PLAN for one in asked):
        raise bad_request("'steps' can only change a plan", param="steps")
    texts = [step.text.strip() for step in steps]
    if not 0 < len(texts) <= STEPS_MAX or not all(0 < len(text) <= STEP_CHARS_MAX for text in texts):
        raise bad_request(
            f"'steps' must be 1 to {STEPS_MAX} steps of 1 to {STEP_CHARS_MAX} characters", param="steps"
        )
    return tuple(steps)


def _stale() -> Problem:
    return Problem(
        409,
        "This approval was already answered, or it expired or was withdrawn",
        code="approval_stale",
        param="approval_id",
    )


def _message_of(said: SayRequest, limits: Limits) -> IncomingMessage:
    given = said.message if said.message is not None else said.text if said.text is not None else said.input
    if parts_in([given]) > limits.content_parts_max:
        raise too_many_parts(limits, param="message")
    attached: Attached = {}
    text, parts = content_of(given, param="message", attached=attached)
    if not text.strip() and not parts:
        raise bad_request("Missing or empty 'message': say what to tell the run", param="message")
    return IncomingMessage(text=text, parts=parts, client_id=said.client_id or "", attached=attached)


def _who(request: Request) -> str:
    """The name of the key, so that the log says who decided."""
    return request.scope[KEY_NAME]
