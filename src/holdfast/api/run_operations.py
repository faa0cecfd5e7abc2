"""The routes under /v1/runs, described."""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.api import responses as a
from holdfast.api.operation import (
    EVENTS,
    ONCE,
    PAGE,
    RESUME,
    RUN_ERRORS,
    START_ERRORS,
    Operation,
)
from holdfast.server.runs import inputs as run_inputs
from holdfast.server.runs.requests import RunRequest

RUNS: Mapping[str, Operation] = MappingProxyType(
    {
        "POST /v1/runs": Operation(
            says="Start a run, in a new session or in the one that `session_id` names.",
            body=RunRequest,
            answers={202: a.Started},
            errors=START_ERRORS,
            headers=ONCE,
            needs_body=True,
        ),
        "GET /v1/runs/{run_id}": Operation(
            says="How a run stands, also long after its end.", answers={200: a.Run}, errors=RUN_ERRORS
        ),
        "GET /v1/runs/{run_id}/events": Operation(
            says=(
                "The events of a run, from the start or from a cursor, until its end: as server-sent events, "
                "or as JSON where `Accept: application/json` or `cursor` asks for it."
            ),
            answers={200: {EVENTS: None, "application/json": a.RunEvents}, 204: None},
            errors={400: "invalid_request", **RUN_ERRORS, 429: "too_many_streams"},
            query={
                "after": "The id of the last event that was seen.",
                "cursor": "The same, and the answer is JSON.",
                "view": "hermes (the default) or native, the events as journaled.",
            },
            headers=RESUME,
        ),
        "GET /v1/runs": Operation(
            says="Runs, newest first.",
            answers={200: a.RunList},
            errors={400: "invalid_request"},
            query={"status": "Only these.", "session_id": "Only of this session.", **PAGE},
        ),
        "POST /v1/runs/{run_id}/stop": Operation(
            says="Stop a run. `total` answers with the final state where the run has ended already.",
            body=run_inputs.StopRequest,
            answers={200: (a.Stopping, a.Run)},
            errors={400: "invalid_request, invalid_json", **RUN_ERRORS},
            query={"total": "true or false."},
        ),
        "POST /v1/runs/{run_id}/approval": Operation(
            says="Decide on one exact action, or on all that are open.",
            scopes=("approve",),
            body=run_inputs.ApprovalRequest,
            answers={200: a.ApprovalAnswer},
            errors={
                400: "invalid_request, invalid_json, invalid_approval_choice",
                **RUN_ERRORS,
                409: "approval_not_active, approval_not_pending, approval_ambiguous, approval_stale",
            },
            needs_body=True,
        ),
        "GET /v1/runs/{run_id}/approval/{approval_id}/rule": Operation(
            says="The rule that would be stored.",
            scopes=("approve",),
            answers={200: a.Rule},
            errors={400: "invalid_request", 404: "run_not_found, approval_not_found"},
            query={"choice": "session (the default) or always."},
        ),
        "POST /v1/runs/{run_id}/question/{question_id}": Operation(
            says="Answer a question of the model.",
            body=run_inputs.AnswerRequest,
            answers={200: a.QuestionAnswer},
            errors={
                400: "invalid_request, invalid_json",
                404: "run_not_found, question_not_found",
                409: "question_stale",
            },
            needs_body=True,
        ),
        "POST /v1/runs/{run_id}/messages": Operation(
            says="Say something to a run under way; it hears it at its next model call.",
            body=run_inputs.SayRequest,
            answers={200: a.Accepted},
            errors={
                400: "invalid_request, invalid_json, too_many_parts, not_a_data_url, blob_not_found",
                **RUN_ERRORS,
                409: "run_not_accepting_steer, session_deleted, idempotency_key_conflict",
                429: "queue_full",
            },
            headers=ONCE,
            needs_body=True,
        ),
        "POST /v1/runs/{run_id}/retry": Operation(
            says="Rewind the session to before its answer, and run its message again; a fork names itself.",
            body=run_inputs.RetryRequest,
            answers={202: a.Started},
            errors={
                400: "invalid_request, invalid_json",
                **RUN_ERRORS,
                404: "run_not_found, session_not_found",
                409: "session_busy, session_deleted, idempotency_key_conflict",
                429: "queue_full",
            },
            headers=ONCE,
        ),
        "POST /v1/runs/{run_id}/gate": Operation(
            says="Do not wait any longer for the time that a provider named: try now.",
            body=run_inputs.GateRequest,
            answers={200: a.Gate},
            errors={400: "invalid_request, invalid_json", **RUN_ERRORS, 409: "not_gated"},
            needs_body=True,
        ),
        "GET /v1/approvals": Operation(
            says="All that waits for a person.", scopes=("chat", "approve"), answers={200: a.Asks}
        ),
        "GET /api/approvals/rules": Operation(
            says="What people have allowed always, and in one session or in all.",
            scopes=("approve",),
            answers={200: a.GrantList},
            errors={400: "invalid_request", 404: "session_not_found"},
            query={
                "session_id": "The session whose own rules are listed, too.",
                "sessions": "`all`: the rules of all sessions are listed, too, in pages.",
                **PAGE,
            },
        ),
        "DELETE /api/approvals/rules/{grant_id}": Operation(
            says="Take such a rule back: what it allowed is asked about again.",
            scopes=("approve",),
            answers={200: a.GrantRevoked},
            errors={404: "rule_not_found, session_not_found"},
            query={"session_id": "Only in this session; else wherever it holds, forks included."},
        ),
    }
)
