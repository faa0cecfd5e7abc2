"""Operations on runs, approvals and questions."""

from holdfast.api import approvals, runs
from holdfast.api.operation import EVENTS, ONCE, PAGE, RESUME, RUN_ERRORS, START_ERRORS, Operation

RUN_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/v1/runs",
        "runs.start",
        tag="Runs",
        summary="Start a run in a new session, or in `session_id`.",
        request=runs.RunRequest,
        responses={202: runs.Started},
        errors=START_ERRORS,
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/runs/{run_id}",
        "runs.show",
        tag="Runs",
        summary="Get a run, active or ended.",
        responses={200: runs.RunShown},
        errors=RUN_ERRORS,
    ),
    Operation(
        "GET",
        "/v1/runs/{run_id}/events",
        "runs.events",
        tag="Runs",
        summary=(
            "Stream a run's events from the start or a cursor until it ends, as server-sent events. "
            "Returns JSON for `Accept: application/json` or `cursor`."
        ),
        responses={200: {EVENTS: None, "application/json": runs.RunEvents}, 204: None},
        errors={400: "invalid_request", **RUN_ERRORS, 429: "too_many_streams"},
        query={
            "after": "The id of the last event you received.",
            "cursor": "Same as `after`, but returns JSON.",
            "view": "hermes (default), or native for events as stored.",
        },
        headers=RESUME,
    ),
    Operation(
        "GET",
        "/v1/runs",
        "runs.list",
        tag="Runs",
        summary="List runs, newest first.",
        responses={200: runs.RunPage},
        errors={400: "invalid_request"},
        query={"status": "Only runs with this status.", "session_id": "Only runs of this session.", **PAGE},
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/stop",
        "inputs.stop",
        also=("/v1/runs/{run_id}/cancel",),
        tag="Runs",
        any_workspace="It ends work.",
        summary="Stop a run. With `total`, returns the final state if it has already ended.",
        request=runs.StopRequest,
        responses={200: (runs.Stopping, runs.RunState)},
        errors={400: "invalid_request, invalid_json", **RUN_ERRORS},
        query={"total": "true or false."},
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/approval",
        "inputs.approve",
        tag="Runs",
        any_workspace="The scope `approve` is for people who decide exact actions; more needs the workspace.",
        summary=(
            "Approve or deny one exact action, or all open ones. A reason, changed steps or a lasting choice "
            "needs a key that can choose the run's workspace."
        ),
        scopes=("approve",),
        request=approvals.ApprovalRequest,
        responses={200: approvals.ApprovalResolved},
        errors={
            400: "invalid_request, invalid_json, invalid_approval_choice",
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            409: "approval_not_active, approval_not_pending, approval_ambiguous, approval_stale",
        },
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/runs/{run_id}/approval/{approval_id}/rule",
        "inputs.rule",
        tag="Runs",
        summary="Preview the rule that a choice would store.",
        scopes=("approve",),
        responses={200: approvals.RulePreview},
        errors={400: "invalid_request", 404: "run_not_found, approval_not_found"},
        query={
            "choice": "session (default) or always.",
            "width": "exact (default), or similar for the program with harmless options.",
        },
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/question/{question_id}",
        "inputs.question",
        also=(
            "/v1/runs/{run_id}/clarifications/{question_id}/respond",
            "/v1/runs/{run_id}/clarify",
            "/v1/runs/{run_id}/clarification",
        ),
        tag="Runs",
        summary="Answer a question from the model. The other paths are for hermes clients.",
        request=approvals.AnswerRequest,
        responses={200: approvals.QuestionResolved},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            404: "run_not_found, question_not_found",
            409: "question_stale, question_ambiguous",
        },
        needs_request=True,
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/steer",
        "inputs.say",
        also=("/v1/runs/{run_id}/messages",),
        tag="Runs",
        summary=(
            "Send a message to an active run; the model reads it in its next call. If the run is waiting "
            "for an approval, an answer or client tool results, the model reads it afterwards, as reported "
            "in `waiting_for` and `note`. Only the client can end a wait for its tools early, by sending "
            "the results or another message on its OpenAI route. Anyone else has to stop the run."
        ),
        request=runs.SayRequest,
        responses={200: runs.Accepted},
        errors={
            400: "invalid_request, invalid_json, too_many_parts, not_a_data_url, blob_not_found",
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            409: "run_not_accepting_steer, session_deleted, idempotency_key_conflict",
            429: "queue_full",
        },
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/retry",
        "inputs.retry",
        tag="Runs",
        summary=(
            "Rewind the session to before the run's answer and run its message again. For a run inherited "
            "by a fork, set `session_id` to the fork."
        ),
        request=runs.RetryRequest,
        responses={202: runs.Started},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            404: "run_not_found, session_not_found",
            409: "session_busy, session_deleted, idempotency_key_conflict",
            429: "queue_full",
        },
        headers=ONCE,
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/gate",
        "inputs.gate",
        tag="Runs",
        summary="Skip the wait requested by a provider and retry now.",
        request=runs.GateRequest,
        responses={200: runs.GateTried},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            409: "not_gated",
        },
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/approvals",
        "inputs.approvals",
        tag="Runs",
        summary="List pending approvals and questions.",
        scopes=("chat", "approve"),
        responses={200: approvals.AskList},
    ),
    Operation(
        "GET",
        "/api/approvals/rules",
        "grants.list",
        tag="Server",
        summary="List stored rules: the permanent ones, and those of one session or all sessions.",
        scopes=("approve",),
        responses={200: approvals.GrantList},
        errors={400: "invalid_request", 404: "session_not_found"},
        query={
            "session_id": "Include the rules of this session.",
            "sessions": "`all` includes the rules of every session, paginated.",
            **PAGE,
        },
    ),
    Operation(
        "DELETE",
        "/api/approvals/rules/{grant_id}",
        "grants.revoke",
        tag="Server",
        summary="Revoke a rule. Its actions need approval again.",
        scopes=("approve",),
        responses={200: approvals.GrantRevoked},
        errors={404: "rule_not_found, session_not_found"},
        query={"session_id": "Revoke it only in this session. Default: everywhere, including forks."},
    ),
)
