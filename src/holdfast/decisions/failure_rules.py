"""How failures are recognized: an ordered list of rules, structured facts first, text last.

The first rule whose conditions all hold decides the class, and the failure records its name. An empty
condition always holds. Words are searched in lower case, and only within the statuses of their rule.
"""

from typing import Literal, TypeAlias

import msgspec

from holdfast.decisions.deadlines import DeadlineKind
from holdfast.decisions.error_facts import PER_DAY
from holdfast.model_events import FinishReason
from holdfast.values import FailureKind

Stage: TypeAlias = Literal["connecting", "uploading", "waiting", "streaming"]
Break: TypeAlias = Literal[
    "dns",
    "refused",
    "unreachable",
    "reset",
    "tls_untrusted",
    "tls_other",
    "eof",
    "protocol",
    "proxy_login",
    "proxy_denied",
    "proxy_failed",
]
Need: TypeAlias = Literal[
    "cancelled",
    "bug",
    "over_window",
    "error",
    "page",
    "wait",
    "room",
    "no_room",
    "no_content",
    "at_proxy",
    "proxied",
]
Again: TypeAlias = Literal[
    "never",
    "at_once_first",
    "while_unreachable",
    "backoff",
    "server_time",
    "once",
    "twice",
    "lower_cap",
    "compacted",
    "plainly",
    "forgetting",
    "new_turn",
]


class FailureRule(msgspec.Struct, frozen=True):
    """One rule; `again` and `advice` override those of the class."""

    name: str
    kind: FailureKind
    status: tuple[int, ...] | range = ()
    codes: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    and_words: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    stages: tuple[Stage, ...] = ()
    broke: tuple[Break, ...] = ()
    deadlines: tuple[DeadlineKind, ...] = ()
    finish: tuple[FinishReason, ...] = ()
    again: Again | None = None
    advice: str = ""


# An error inside a stream has no status; its type implies one. The vague types
# are last: if a body has two types, the other one says more.
STATUS_OF_CODE: dict[str, int] = {
    "authentication_error": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "accessdeniedexception": 403,
    "permission_denied": 403,
    "permission_error": 403,
    "not_found": 404,
    "not_found_error": 404,
    "notfounderror": 404,
    "resourcenotfoundexception": 404,
    "conflict_error": 409,
    "modelstreamerrorexception": 408,
    "modeltimeoutexception": 408,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "throttlingexception": 429,
    "too_many_requests": 429,
    "service_unavailable_error": 503,
    "serviceunavailableexception": 503,
    "unavailable": 503,
    "unavailable_error": 503,
    "deadline_exceeded": 504,
    "timeout_error": 504,
    "api_error": 500,
    "internal": 500,
    "internalserverexception": 500,
    "internal_server_error": 500,
    "network_error": 500,
    "server_error": 500,
    "vector_store_timeout": 500,
    "data_residency_mismatch": 400,
    "empty_image_file": 400,
    "failed_to_download_image": 400,
    "image_file_not_found": 400,
    "image_parse_error": 400,
    "image_too_small": 400,
    "invalid_base64_image": 400,
    "invalid_image": 400,
    "invalid_image_format": 400,
    "invalid_image_mode": 400,
    "invalid_image_url": 400,
    "unsupported_image_media_type": 400,
    "bad_request": 400,
    "badrequesterror": 400,
    "failed_precondition": 400,
    "invalid_argument": 400,
    "invalid_request_error": 400,
    "validationexception": 400,
}

QUOTA = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_exhausted",
        "enforced_spend_limit_reached",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_quota",
        "insufficient_user_quota",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
        PER_DAY,
    }
)
NOT_IN_PLAN = frozenset(
    {"organization_on_hold", "unsupported_country_region_territory", "usage_not_included"}
)
USAGE_LIMIT = frozenset({"usage_limit_reached"})
IN_FLIGHT = frozenset({"openrouter_in_flight_budget"})
TOO_LONG = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "input_too_long",
        "model_context_window_exceeded",
    }
)
CONTENT = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "image_content_policy_violation",
        "invalid_prompt",
        "misalignment_policy_violation",
        "prohibited_content",
        "responsibleaipolicyviolation",
    }
)
OLD_THOUGHTS = frozenset({"invalid_encrypted_content"})
IMAGE = frozenset({"image_file_too_large", "image_too_large"})
NO_MODEL = frozenset(
    {
        "deploymentnotfound",
        "invalid_model",
        "invalid_model_id",
        "model_decommissioned",
        "model_not_available",
        "model_not_found",
        "unsupported_model",
    }
)
OVERLOADED = frozenset(
    {
        "capacity_exceeded",
        "engine_overloaded_error",
        "insufficient_system_resource",
        "modelnotreadyexception",
        "overloaded_error",
        "server_is_overloaded",
        "service_tier_capacity_exceeded",
        "slow_down",
    }
)
BAD_KEY = frozenset({"api_key_invalid", "authentication_error", "invalid_api_key", "token_expired"})

BAD = (400, 422)
OVERFLOWS = (400, 413, 422, 500, 502)
CREDITS_WORDS = ("credit", "insufficient balance", "spend limit", "specified api usage limits")
PLAN_WORDS = (
    "don't have access to the model",
    "does not have access to model",
    "must be verified",
    "not available in your",
    "not included in your",
    "subscription",
    "upgrade",
    "your plan",
)
FLAGGED_WORDS = ("flagged", "moderation", "violates usage guidelines", "safety_check")
KEY_WORDS = ("incorrect api key", "invalid api key", "api key not valid")
PLACE_WORDS = ("must be verified", "user location is not supported")
CAP_WORDS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maximum tokens you requested")
OVER_WORDS = ("too large", "exceed", "less than or equal", "valid range", "at most", "greater than")
TOO_LONG_WORDS = (
    "context length",
    "context limit",
    "context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "input is too long",
    "input tokens exceed",
    "maximum prompt length",
    "prompt is too long",
)
IMAGE_WORDS = (
    "image exceeds",
    "image dimensions exceed",
    "member must have length less than or equal to 25000000",
    "payload size exceeds",
)
CONTENT_WORDS = ("content exists risk", "content filtering policy", "content management policy", "flagged")
OLD_THOUGHTS_WORDS = (
    "invalid `signature` in `thinking` block",
    "invalid `data` in `redacted_thinking` block",
    "`redacted_thinking` blocks in the latest assistant message cannot be modified",
)
NO_MODEL_WORDS = (
    "failed to load model",
    "invalid model",
    "is not a valid model",
    "model does not exist",
    "model identifier is invalid",
    "model is not supported when using",
    "model not exist",
    "no models loaded",
    "unknown model",
)
BUSY_WORDS = ("capacity exceeded", "at capacity", "high demand", "overloaded")

PROXY_ADVICE = 'check proxy of {target}, or HTTPS_PROXY and NO_PROXY; proxy = "" uses none'
LOGIN_ADVICE = "set them in proxy of {target} or in HTTPS_PROXY, as http://USER:PASSWORD@HOST:PORT"
INSPECTED_ADVICE = (
    "if the proxy inspects traffic, make this computer trust its certificate (SSL_CERT_FILE can name it)"
)

RULES: tuple[FailureRule, ...] = (
    FailureRule("cancelled", "cancelled", needs=("cancelled",)),
    FailureRule("local_bug", "local_bug", needs=("bug",)),
    FailureRule("own_count", "overflow_input", needs=("over_window",)),
    FailureRule(
        "proxy.untrusted",
        "tls_untrusted",
        needs=("proxied",),
        broke=("tls_untrusted",),
        advice=INSPECTED_ADVICE,
    ),
    FailureRule("tls_untrusted", "tls_untrusted", broke=("tls_untrusted",)),
    # A proxy's response before it lets anything through, or its silence.
    FailureRule("proxy.login", "connect_failed", broke=("proxy_login",), again="never", advice=LOGIN_ADVICE),
    FailureRule(
        "proxy.denied", "connect_failed", broke=("proxy_denied",), again="never", advice=PROXY_ADVICE
    ),
    FailureRule("proxy.failed", "connect_failed", broke=("proxy_failed",), advice=PROXY_ADVICE),
    FailureRule("proxy.no_way", "connect_failed", needs=("at_proxy",), advice=PROXY_ADVICE),
    # Error codes.
    FailureRule("code.quota", "quota_exhausted", codes=QUOTA),
    FailureRule("code.usage_limit_timed", "rate_limited", codes=USAGE_LIMIT, needs=("wait",)),
    FailureRule("code.usage_limit", "quota_exhausted", codes=USAGE_LIMIT),
    FailureRule("code.in_flight_budget", "rate_limited", codes=IN_FLIGHT, needs=("wait",)),
    FailureRule("code.plan", "entitlement", codes=NOT_IN_PLAN),
    FailureRule("room.some", "overflow_output", OVERFLOWS, needs=("room",)),
    FailureRule("room.none", "overflow_input", OVERFLOWS, needs=("no_room",)),
    FailureRule("code.overflow_input", "overflow_input", codes=TOO_LONG),
    # A provider may refuse a model's own encrypted reasoning later, for example with another key or model.
    FailureRule("code.old_thoughts", "bad_request", codes=OLD_THOUGHTS, again="forgetting"),
    FailureRule("code.content", "content_refused", codes=CONTENT),
    FailureRule("code.image", "payload_too_large", codes=IMAGE),
    FailureRule("code.model", "model_missing", codes=NO_MODEL),
    FailureRule("code.overloaded", "overloaded", codes=OVERLOADED),
    FailureRule("code.key", "auth", codes=BAD_KEY),
    # Statuses, and words within a status.
    FailureRule("401", "auth", (401,)),
    FailureRule("407", "connect_failed", (407,), again="never", advice=LOGIN_ADVICE),
    FailureRule("402", "quota_exhausted", (402,)),
    FailureRule("403.credits", "quota_exhausted", (403,), words=CREDITS_WORDS),
    FailureRule("403.flagged", "content_refused", (403,), words=FLAGGED_WORDS),
    FailureRule("403.plan", "entitlement", (403,), words=PLAN_WORDS),
    FailureRule("403.page", "auth", (403,), needs=("page",)),
    FailureRule("403", "auth", (403,)),
    FailureRule("404.model", "model_missing", (404,), words=("model", "no endpoints")),
    FailureRule("404.path", "bad_request", (404,)),
    FailureRule("408", "server_error", (408, 409, 424, 425), again="once"),
    FailureRule("413", "payload_too_large", (413,)),
    FailureRule("429.too_large", "payload_too_large", (429,), words=("request too large",)),
    FailureRule("429.overloaded", "overloaded", (429,), words=BUSY_WORDS),
    FailureRule("429", "rate_limited", (429,)),
    FailureRule(
        "400.credits", "quota_exhausted", BAD, words=CREDITS_WORDS, and_words=("too low", "limit", "balance")
    ),
    FailureRule("400.key", "auth", BAD, words=KEY_WORDS),
    FailureRule("400.plan", "entitlement", BAD, words=PLACE_WORDS),
    FailureRule("400.no_room", "overflow_input", BAD, words=("must be at least 1, got -",)),
    FailureRule("400.output_cap", "overflow_output", BAD, words=CAP_WORDS, and_words=OVER_WORDS),
    FailureRule("400.input", "overflow_input", BAD, words=TOO_LONG_WORDS),
    FailureRule("400.image", "payload_too_large", BAD, words=IMAGE_WORDS),
    FailureRule("400.content", "content_refused", BAD, words=CONTENT_WORDS),
    FailureRule("400.model", "model_missing", BAD, words=NO_MODEL_WORDS),
    FailureRule(
        "400.crashed", "server_error", BAD, words=("model has crashed", "model unloaded", "model is unloaded")
    ),
    FailureRule("400.old_thoughts", "bad_request", BAD, words=OLD_THOUGHTS_WORDS, again="forgetting"),
    # A model without reasoning has no encrypted reasoning, and refuses requests for it.
    FailureRule(
        "400.thoughts", "bad_request", BAD, words=("encrypted content is not supported",), again="plainly"
    ),
    FailureRule("400", "bad_request", BAD),
    FailureRule("498", "overloaded", (498,)),
    FailureRule("4xx", "bad_request", range(400, 500)),
    FailureRule(
        "500.input",
        "overflow_input",
        (500, 502),
        words=("context size has been exceeded", "maximum context length is"),
    ),
    FailureRule("500.no_memory", "model_missing", (500,), words=("requires more system memory",)),
    FailureRule("500.overloaded", "overloaded", (500,), words=BUSY_WORDS),
    FailureRule("501", "bad_request", (501, 505)),
    # A local server that already listens but is still loading its model: as good as away, and back soon.
    FailureRule("503.loading", "overloaded", (503,), words=("loading model",), again="while_unreachable"),
    FailureRule("503", "overloaded", (503, 529)),
    FailureRule("5xx", "server_error", range(500, 600)),
    FailureRule("3xx", "bad_request", range(300, 400)),
    FailureRule("page", "malformed", needs=("page",)),
    FailureRule("stream.error", "unknown", needs=("error",)),
    # Terminal markers.
    FailureRule("finish.refused", "content_refused", finish=("refused",)),
    FailureRule("finish.length", "truncated", finish=("length",)),
    FailureRule("finish.empty", "empty", finish=("stop", "tools"), needs=("no_content",)),
    # Deadlines.
    FailureRule("deadline.connect", "connect_failed", deadlines=("connect",)),
    FailureRule("deadline.upload", "upload_stalled", deadlines=("upload",)),
    FailureRule("deadline.first_event", "no_first_event", deadlines=("first_event",)),
    FailureRule("deadline.progress", "stalled", deadlines=("first_progress", "gap", "tail")),
    # How the connection ended.
    FailureRule("broke.protocol", "malformed", broke=("protocol",)),
    FailureRule("broke.no_way", "connect_failed", broke=("dns", "refused", "unreachable")),
    FailureRule(
        "broke.connecting", "connect_failed", stages=("connecting",), broke=("reset", "tls_other", "eof")
    ),
    FailureRule("broke.dropped", "dropped", broke=("reset", "tls_other", "eof")),
    FailureRule("unknown", "unknown"),
)
