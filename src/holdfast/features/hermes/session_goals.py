"""Session goals of hermes. A goal is the session's newest run in goal mode, so nothing else is stored."""

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.runs import BudgetRequest, RunRequest
from holdfast.features.hermes.bodies import GoalRequest, GoalShown, SessionGoalShown
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.runner.inbox import Sent
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.requests import message_of
from holdfast.server.transport.bodies import checked_session_id, decoded, json_response

SET, PAUSED, RESUMED, CLEARED = "Goal set.", "Goal paused.", "Goal resumed.", "Goal cleared."


class GoalRoutes:
    """The routes under /v1/sessions/{session_id}/goal."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._runs = parts.runs

    async def show(self, request: Request) -> Response:
        """GET /v1/sessions/{session_id}/goal."""
        session_id = checked_session_id(request.path_params["session_id"])
        return json_response(await self._shown(session_id))

    async def change(self, request: Request) -> Response:
        """POST /v1/sessions/{session_id}/goal."""
        deps = self._deps
        session_id = checked_session_id(request.path_params["session_id"])
        wanted = await decoded(request, deps.limits, GoalRequest)
        state = await deps.inbox.state(session_id)
        goal = _goal_run(state)
        match wanted.action:
            case "set":
                if not (wanted.goal or "").strip():
                    raise bad_request("'goal' is missing or empty", param="goal")
                return await self._begin(session_id, state, wanted)
            case "resume":
                if goal is None or goal.outcome in {None, "completed"}:
                    raise Problem(404, "There is no goal to resume", code="goal_not_found")
                text = state.inbox.messages[goal.message_id].text
                budget = goal.settings.budget
                again = GoalRequest(action="resume", goal=text, max_turns=budget.turns if budget else 0)
                return await self._begin(session_id, state, again)
            case "pause" | "clear":
                is_open = goal is not None and goal.outcome is None
                if goal is not None and is_open:
                    await deps.inbox.stop(session_id, goal.run_id, by=request.scope[KEY_NAME])
                elif wanted.action == "pause":
                    raise Problem(404, "There is no active goal", code="goal_not_found")
                if wanted.action == "clear":
                    return json_response(SessionGoalShown(session_id=session_id, goal=None, message=CLEARED))
                return json_response(replace(await self._shown(session_id), message=PAUSED))

    async def _begin(self, session_id: str, state: Session, wanted: GoalRequest) -> Response:
        if state.open_runs:
            text = "A run is active. Pause or stop it first"
            raise Problem(409, text, code="session_busy")
        budget = BudgetRequest(turns=wanted.max_turns) if wanted.max_turns else None
        body = RunRequest(input=wanted.goal, goal=True, budget=budget)
        sent = await self._runs.send(session_id, message_of(body, self._deps.limits), key=None)
        assert isinstance(sent, Sent), "a stored response needs a key"
        message = SET if wanted.action == "set" else RESUMED
        shown = await self._shown(session_id)
        return json_response(replace(shown, message=message, run_id=sent.run_id))

    async def _shown(self, session_id: str) -> SessionGoalShown:
        state = await self._deps.inbox.state(session_id)
        run = _goal_run(state)
        goal = None if run is None else self._goal(run, state.inbox.messages[run.message_id].text)
        return SessionGoalShown(session_id=session_id, goal=goal)

    def _goal(self, run: Run, text: str) -> GoalShown:
        budget = run.settings.budget
        status = "active" if run.outcome is None else "done" if run.outcome == "completed" else "paused"
        return GoalShown(
            goal=text,
            status="paused" if run.stop_cause and status == "active" else status,
            turns_used=run.turns,
            max_turns=(budget.turns if budget else 0) or self._deps.agent.turns_max,
            paused_reason=(run.cause or run.outcome or run.stop_cause or "") if status != "done" else "",
            created_at=run.created_ms / 1000,
            last_turn_at=run.updated_ms / 1000,
        )


def _goal_run(state: Session) -> Run | None:
    return next((run for run in reversed(state.runs.values()) if run.settings.goal), None)
