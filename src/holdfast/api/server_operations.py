"""Operations for the page and server administration."""

from typing import Any

from holdfast.api import access, nodes, server
from holdfast.api.operation import (
    EVENTS,
    EVERY,
    NO_KEY,
    Operation,
)

_IMAGES: dict[str, None] = dict.fromkeys(
    ("application/octet-stream", "image/png", "image/jpeg", "image/gif", "image/webp")
)


SERVER_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/events",
        "log.list_changes",
        tag="Server",
        summary="Stream session list changes, for a client without an open session.",
        responses={200: {EVENTS: None}},
        errors={429: "too_many_streams"},
    ),
    Operation(
        "POST",
        "/api/blobs",
        "blobs.upload",
        tag="Server",
        summary=(
            "Upload an image or file to reference by name in message parts. The model sees images, PDFs "
            "and text up to 32 KiB. Other files are saved under `attachments/` in the run's workspace, and "
            "the model gets the path. The event `attachments.saved` has the path, or the reason for a "
            "failure."
        ),
        raw_request="application/octet-stream",
        responses={201: server.BlobStored},
        errors={400: "empty_blob, body_cut_off", 429: "upload_quota_reached"},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/api/blobs/{blob}",
        "blobs.download",
        tag="Server",
        summary="Download a blob, or show it as an image if `media_type` is set.",
        by_ticket=True,
        responses={200: _IMAGES},
        errors={404: "blob_not_found"},
        query={"media_type": "image/png, image/jpeg, image/gif or image/webp."},
    ),
    Operation(
        "POST",
        "/api/sign-in",
        "browsers.sign_in",
        tag="Server",
        summary=(
            "Sign in a browser with a key, or with the one-time token of a sign-in link. Returns a cookie "
            "and `page`. Requests need both: send `page` as `X-Holdfast-Page`, because browsers send "
            "cookies to every port of a host."
        ),
        scopes=NO_KEY,
        request=access.SignInRequest,
        responses={200: access.SignedIn},
        errors={400: "invalid_request, invalid_json", 409: "page_outdated"},
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/sign-out",
        "browsers.sign_out",
        tag="Server",
        summary="Sign out a browser.",
        scopes=EVERY,
        responses={200: access.SignedOut},
    ),
    Operation(
        "POST",
        "/api/sign-in-links",
        "browsers.link",
        tag="Server",
        summary=(
            "Create a sign-in link for one browser with the caller's key. The token works once, for ten "
            "minutes. The link is the server's URL followed by `/#token=…`."
        ),
        scopes=EVERY,
        responses={201: access.SignInLink},
        errors={409: "no_keys_needed"},
    ),
    Operation(
        "POST",
        "/api/tickets",
        "browsers.ticket",
        tag="Server",
        summary=(
            "Create a ticket for an image or download, where a browser can't send headers. It's valid for "
            "one path and query, for one minute, as the query parameter `ticket`."
        ),
        scopes=EVERY,
        request=access.TicketRequest,
        responses={201: access.TicketIssued},
        errors={400: "invalid_request, invalid_json", 409: "no_ticket_needed"},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/api/keys",
        "keys.list",
        tag="Server",
        summary="List API keys, without their secrets.",
        scopes=("admin",),
        responses={200: access.KeyList},
    ),
    Operation(
        "POST",
        "/api/keys",
        "keys.add",
        tag="Server",
        summary="Create a key. Only this response contains its secret.",
        scopes=("admin",),
        request=access.CreateKeyRequest,
        responses={201: access.KeyMade},
        errors={
            400: "invalid_request, invalid_json, secret_in_name",
            409: "key_exists, no_keys_needed",
            429: "too_many_keys",
        },
        needs_request=True,
    ),
    Operation(
        "DELETE",
        "/api/keys/{name}",
        "keys.revoke",
        tag="Server",
        summary="Revoke a key and sign out every browser that used it.",
        scopes=("admin",),
        responses={200: access.KeyRevoked},
        errors={404: "key_not_found", 409: "key_configured"},
    ),
    Operation(
        "GET",
        "/api/quarantine",
        "quarantine.list",
        tag="Server",
        summary="List quarantined files, newest first: changes made by commands without approval.",
        scopes=("approve",),
        responses={200: server.QuarantineList},
    ),
    Operation(
        "POST",
        "/api/quarantine/{file_id}/restore",
        "quarantine.restore",
        tag="Server",
        summary="Restore a quarantined file. Any file it replaces is moved to quarantine.",
        scopes=("approve",),
        responses={200: server.QuarantineRestored},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "DELETE",
        "/api/quarantine/{file_id}",
        "quarantine.delete",
        tag="Server",
        summary="Permanently delete a quarantined file.",
        scopes=("approve",),
        responses={200: server.QuarantineDeleted},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "GET",
        "/api/targets",
        "targets.list",
        tag="Server",
        summary="List targets with their health, activity and timeouts.",
        responses={200: server.TargetList},
    ),
    Operation(
        "POST",
        "/api/targets/{name}/try",
        "targets.try_one",
        tag="Server",
        summary=(
            "Test a target with one small real call, within 25 seconds. It costs a few tokens, and "
            "bypasses provider-requested pauses and the circuit breaker. If the target answers, both are "
            "reset. Only one test can run at a time."
        ),
        scopes=("admin",),
        responses={200: server.TargetTried},
        errors={404: "target_not_found", 409: "already_trying"},
    ),
    Operation(
        "GET",
        "/api/nodes",
        "nodes.list",
        tag="Server",
        summary=(
            "List the servers that share the store, with their active session counts. With SQLite, lists "
            "only this server, without a name."
        ),
        scopes=("admin",),
        responses={200: nodes.NodeList},
    ),
    Operation(
        "GET",
        "/v1/capabilities",
        "health.capabilities",
        tag="Server",
        scopes=EVERY,
        summary="Get the server's capabilities, in hermes format.",
        responses={200: server.Capabilities},
    ),
    Operation(
        "GET",
        "/health/detailed",
        "health.detailed",
        tag="Server",
        summary="Get detailed server health.",
        scopes=EVERY,
        responses={200: server.DetailedHealth},
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics.show",
        tag="Server",
        summary="Get Prometheus metrics. They include API key names, so relay-only keys can't read them.",
        scopes=("chat", "approve", "admin"),
        responses={200: {"text/plain": None}},
    ),
    Operation(
        "GET",
        "/health",
        "health.alive",
        also=("/v1/health",),
        tag="Server",
        summary="Check liveness. Needs no key. 503 means that the server must be restarted.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "store_closed, tools_failed"},
    ),
    Operation(
        "GET",
        "/health/ready",
        "health.ready",
        tag="Server",
        summary="Check readiness, for a load balancer. Needs no key.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "not_ready"},
    ),
    Operation(
        "GET",
        "/openapi.json",
        "docs.openapi",
        tag="Server",
        summary="Get this description as OpenAPI.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: dict[str, Any]},
    ),
    Operation(
        "GET",
        "/docs",
        "docs.page",
        tag="Server",
        summary="Get this description as a web page.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: {"text/html": None}},
    ),
)
