"""A target, and what an attempt on it that failed is classed as."""

import msgspec

from holdfast.decisions.deadlines import Deadline, DeadlineKind, Why
from holdfast.decisions.failures import Classified, Facts, classify
from holdfast.targets import Target

NOW_MS = 1_750_000_000_000  # 2025-06-15T15:06:40Z
KEY = "sk-corpus-key-0123456789abcdef"
TARGET = Target(
    name="main", wire="chat", base_url="https://api.example.com/v1", model="some-model", api_key=KEY
)


def deadline(kind: DeadlineKind, patience_s: float, why: Why = "configured") -> Deadline:
    return Deadline(at_s=0, kind=kind, patience_s=patience_s, why=why, says="")


def failed(**given: object) -> Classified:
    return classify(msgspec.structs.replace(Facts(stage="waiting", now_ms=NOW_MS), **given), TARGET)
