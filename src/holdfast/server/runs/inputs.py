"""Inputs to runs over HTTP: stop, steer, approve, answer, retry, compact, try now."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.api.approvals import (
    AnswerRequest,
    ApprovalRequest,
    ApprovalResolved,
    AskList,
    QuestionResolved,
    RulePreview,
)
from holdfast.api.runs import GateRequest, GateTried, RetryRequest, SayRequest, Stopping, StopRequest
from holdfast.api.sessions import CompactRequest
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.interfaces.journal import KeyConflict, Replayed
from holdfast.runner.asks import (
    Answered,
    AnswerNotOffered,
    ApprovalVerdict,
    AskAnswer,
    QuestionAnswer,
    Stale,
    UnknownAsk,
    shown_rule,
)
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.safe_text import safe_line
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import Attached, content_of, keep_attached, parts_in, without_secrets
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, bad_request, run_not_found, session_not_found
from holdfast.server.runs.requests import accepted, not_sent, reserved_place, started, too_many_parts
from holdfast.server.runs.run_state import open_asks_in, run_state, waits_for_someone
from holdfast.server.runs.runs import row_of
from holdfast.server.sessions.sessions import session_of
from holdfast.server.streams import hermes
from holdfast.server.transport.bodies import decoded, flag, json_response, parsed, read_body, truth
from holdfast.server.transport.once import earlier_response, once_for, once_key, replayed
from holdfast.values import STEP_CHARS_MAX, STEPS_MAX, ApprovalMode, Choice, PlanStep

_CHOICES = ("once", "session", "always", "deny")


def approval_choice(given: str) -> Choice:
    """The choice by any of its names; raises a Problem."""
    choice = hermes.ALIASES.get(given.strip().lower(), given.strip().lower())
    if choice not in _CHOICES:
        raise bad_request(
            f"'choice' must be one of {', '.join(_CHOICES)}", param="choice", code="invalid_approval_choice"
        )
    return choice


def answer_of(asked: e.AskAsked, text: str, *, by: str, reason: str, mode_max: ApprovalMode) -> AskAnswer:
    """A client's text as the answer to a question, or as a verdict on an approval; raises a Problem."""
    if isinstance(asked, e.QuestionAsked):
        return QuestionAnswer(text, by=by)
    return ApprovalVerdict(approval_choice(text), by=by, reason=reason, mode_max=mode_max)


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
                placed = message.in_workspace(await deps.workspaces.for_run(row.session_id, ""))
                sent = await deps.inbox.send(row.session_id, placed, once=once)
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
        await self._deps.workspaces.check_session(session_id)
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
        asked = _wanted_approvals(await self._run(row), wanted, all_of_them=all_of_them)
        verdict = ApprovalVerdict(
            choice,
            by=_who(request),
            reason=wanted.reason or "",
            width=wanted.width,
            steps=_changed_plan(wanted.steps),
            mode_max=deps.mode_access.allowed()[-1],
        )
        await deps.workspaces.check_answer(row, verdict)
        results = answered_or_stale(await deps.inbox.answer_all({one.ask_id: verdict for one in asked}))
        resolved = sum(isinstance(one, Answered) for one in results)
        if not resolved:
            raise _stale(wanted)
        approval_id = asked[0].approval_id if len(asked) == 1 else ""
        return json_response(
            ApprovalResolved(run_id=row.run_id, choice=choice, resolved=resolved, approval_id=approval_id)
        )

    async def approvals(self, request: Request) -> Response:
        """GET /v1/approvals."""
        del request
        deps = self._deps
        data = tuple(await open_asks_in(deps.store))
        total = await deps.store.open_ask_count()
        return json_response(AskList(data=data, total=max(total, len(data))))

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
                404, "No approval of this run has this id", code="approval_not_found", param="approval_id"
            )
        width = request.query_params.get("width", "exact")
        if width != "exact" and width != "similar":  # noqa: PLR1714  # type checkers follow this form
            raise bad_request("'width' must be exact or similar", param="width")
        rule = shown_rule(ask.asked, width)
        return json_response(
            RulePreview(approval_id=ask.asked.approval_id, choice=choice, rule=rule, width=width)
        )

    async def question(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/question/{question_id}, and hermes-webui's names for it."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, AnswerRequest)
        answer = _one_of(answer=wanted.answer, response=wanted.response)
        if answer is None:
            raise bad_request("Missing 'answer'", param="answer")
        row = await row_of(deps, request)
        run = await self._run(row)
        named = _one_of(question_id=request.path_params.get("question_id"), clarify_id=wanted.clarify_id)
        question_id = _only_question(run) if named is None else named
        ask = run.person_asks.get(question_id)
        if ask is None or not isinstance(ask.asked, e.QuestionAsked):
            raise Problem(
                404, "No question of this run has this id", code="question_not_found", param="question_id"
            )
        (result,) = answered_or_stale(
            await deps.inbox.answer_all({question_id: QuestionAnswer(answer, by=_who(request))})
        )
        if isinstance(result, Stale):
            raise Problem(
                409,
                "The question was already answered, or it expired or was withdrawn",
                code="question_stale",
            )
        return json_response(QuestionResolved(run_id=row.run_id, question_id=question_id, status="answered"))

    async def _run(self, row: RunRow) -> Run:
        return (await self._deps.folds.run(row)).state


def _started_alone(sent: Sent | NotSent | Replayed | KeyConflict) -> Response:
    """The response about a run that may only start while no other is open."""
    match sent:
        case Sent():
            return json_response(started(sent), 202)
        case NotSent("busy"):
            text = "The session has an active run or queued messages. Stop the run, or clear the queue"
            raise Problem(409, text, code="session_busy")
        case NotSent():
            raise not_sent(sent)
        case Replayed() | KeyConflict():
            return replayed(sent, status=202)


def _wanted_approvals(run: Run, wanted: ApprovalRequest, *, all_of_them: bool) -> list[e.ApprovalAsked]:
    """Exactly the approvals that the verdict is for; raises a Problem instead of guessing."""
    pending = [ask.asked for ask in run.open_person_asks if isinstance(ask.asked, e.ApprovalAsked)]
    # hermes-webui sends an empty one if it doesn't know which.
    approval_id = _one_of(approval_id=wanted.approval_id or None, request_id=wanted.request_id)
    if approval_id is not None:
        known = run.person_asks.get(approval_id)
        if known is None or not isinstance(known.asked, e.ApprovalAsked):
            raise _not_pending(wanted, "No approval of this run has this id")
        if known.state != "open":
            raise _stale(wanted)
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


def answered_or_stale(
    results: list[Answered | Stale] | AnswerNotOffered | UnknownAsk,
) -> list[Answered | Stale]:
    """The results; raises a Problem if one of the answers isn't offered, so that none was stored."""
    match results:
        case UnknownAsk():
            text = f"No approval or question has the id {results.ask_id[:100]}"
            raise Problem(404, text, code="ask_not_found")
        case AnswerNotOffered(part="steps"):
            raise bad_request("'steps' can only change a plan", param="steps")
        case AnswerNotOffered():
            raise _not_offered(results)
        case _:
            return results


def _not_offered(refused: AnswerNotOffered) -> Problem:
    asked = refused.asked
    about = asked.action.summary[:80]
    text = f"'width' must be exact with this choice for {about}"
    if refused.part == "choice":
        lasting = ("session", "always") if asked.offers else ()
        offered = [one for one in asked.choices if one in ("once", "deny", *lasting)]
        text = f"'choice' must be one of {', '.join(offered)} for {about}"
    return bad_request(text, param=refused.part, code="invalid_approval_choice")


def _changed_plan(steps: Sequence[PlanStep] | None) -> tuple[PlanStep, ...]:
    """The plan as the person changed it; raises a Problem if it's none."""
    if steps is None:
        return ()
    texts = [step.text.strip() for step in steps]
    if not 0 < len(texts) <= STEPS_MAX or not all(0 < len(text) <= STEP_CHARS_MAX for text in texts):
        raise bad_request(
            f"'steps' must be 1 to {STEPS_MAX} steps of 1 to {STEP_CHARS_MAX} characters",
            param="steps",
        )
    return tuple(steps)


def _one_of(**fields: str | None) -> str | None:
    """The value of a field that has two names; raises a Problem if they disagree."""
    given = {value for value in fields.values() if value is not None}
    if len(given) > 1:
        first, second = fields
        raise bad_request(f"'{first}' and '{second}' disagree. Send only one", param=second)
    return next(iter(given), None)


def _stale(wanted: ApprovalRequest) -> Problem:
    return _not_pending(wanted, "This approval was already answered, or it expired or was withdrawn")


def _not_pending(wanted: ApprovalRequest, text: str) -> Problem:
    """The approval isn't open; hermes clients, which name it as request_id, know another code for that."""
    if wanted.request_id is not None:
        return Problem(409, text, code="approval_not_pending", param="request_id")
    return Problem(409, text, code="approval_stale", param="approval_id")


def _message_of(said: SayRequest, limits: Limits) -> IncomingMessage:
    given = said.message if said.message is not None else said.text if said.text is not None else said.input
    if parts_in([given]) > limits.content_parts_max:
        raise too_many_parts(limits, param="message")
    attached: Attached = {}
    text, parts = content_of(given, param="message", attached=attached)
    if not text.strip() and not parts:
        raise bad_request("Missing or empty 'message'", param="message")
    return IncomingMessage(text=text, parts=parts, client_id=said.client_id or "", attached=attached)


def _who(request: Request) -> str:
    """The name of the key, so that the log says who decided."""
    return request.scope[KEY_NAME]
