"""The bodies of requests and responses about what people are asked, and what they have allowed."""

from typing import Any

import msgspec


class ApprovalRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/approval; yes and no come in many forms."""

    choice: str
    approval_id: str | None = None
    all: Any = None
    resolve_all: Any = None
    reason: str | None = None


class AnswerRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/question/{question_id}."""

    answer: str
