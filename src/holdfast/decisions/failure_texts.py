"""How failures are described to people: what happened, for how long, and what they can do."""

import re
from urllib.parse import urlsplit

from holdfast.decisions.deadlines import WHY_TEXT, Deadline, DeadlineKind, Why
from holdfast.decisions.failure_rules import Break, Stage
from holdfast.decisions.proxies import proxy_at, proxy_secrets
from holdfast.targets import Target

PROVIDER_CHARS_MAX = 400
LIKE_A_KEY_CHARS = 6  # the part of a key that providers leave readable around their asterisks
SHORT_KEY_CHARS = 8
SCANNED_CHARS_MAX = 2_000
MINUTE_S = 60
KEY_MARK = "[key]"

_WORD = re.compile(r"[A-Za-z0-9_\-.*+/=]{4,}", re.ASCII)
_SECRET_HEADERS = ("auth", "cookie", "key", "secret", "token")

DEADLINE_TEXT: dict[DeadlineKind, str] = {
    "connect": "no connection in {s} s",
    "upload": "no byte of the request accepted for {s} s",
    "first_event": "no first byte in {s} s (TTFB threshold: {s}s)",
    "first_progress": "no events for {s} s after first byte",
    "gap": "no events for {s} s after first byte",
    "tail": "no end of the stream for {s} s after the answer",
}
SETTINGS: dict[DeadlineKind, str] = {
    "connect": "connect_s",
    "upload": "upload_s",
    "first_event": "first_event_s",
    "first_progress": "first_progress_s",
    "gap": "gap_s",
    "tail": "gap_s",
}
SETTING_OF_WHY: dict[Why, str] = {"cap": "first_event_cap_s", "gap": "gap_s"}
BREAK_TEXT: dict[Break, str] = {
    "dns": "can't resolve {place}",
    "refused": "{place} refused the connection",
    "unreachable": "{place} can't be reached",
    "reset": "{place} reset the connection",
    "tls_untrusted": "the certificate of {place} isn't trusted",
    "tls_other": "can't open a secure connection to {place}",
    "eof": "{place} closed the connection",
    "protocol": "{place} sent an invalid response",
    "proxy_login": "{place} requires a user name and a password",
    "proxy_denied": "{place} blocked the request",
    "proxy_failed": "{place} couldn't reach the endpoint",
}
STAGE_TEXT: dict[Stage, str] = {
    "connecting": "",  # the text for the break already says it
    "uploading": "while the request was being sent",
    "waiting": "before sending a response",
    "streaming": "in the middle of the answer",
}


def deadline_text(deadline: Deadline, stage: Stage) -> str:
    """The text for a deadline that has passed; operators search logs for it, so it must not change."""
    heard = deadline.kind != "first_progress" or stage == "streaming"
    text = DEADLINE_TEXT[deadline.kind] if heard else "no first byte in {s} s"
    seconds = f"{deadline.patience_s:g}"
    why = "" if deadline.why == "configured" else WHY_TEXT[deadline.why].format(patience=seconds)
    return text.format(s=seconds) + (f", {why}" if why else "")


def setting_of(deadline: Deadline | None) -> str:
    """The setting that ended the wait; raising it makes the wait longer."""
    if deadline is None:
        return "gap_s"
    return SETTING_OF_WHY.get(deadline.why) or SETTINGS[deadline.kind]


def break_text(broke: Break, stage: Stage, *, place: str) -> str:
    """The text for a connection that ended on its own or was never made."""
    return f"{BREAK_TEXT[broke].format(place=place)} {STAGE_TEXT[stage]}".rstrip()


def endpoint_place(target: Target) -> str:
    """Where a target is, and the proxy in front of it."""
    place = urlsplit(target.base_url).netloc.rpartition("@")[2] or target.name
    return f"{place} (through {proxy_place(target)})" if target.proxy else place


def proxy_place(target: Target) -> str:
    """Where the proxy is; an answer can also come from a proxy that isn't configured."""
    proxy = proxy_at(target.proxy)
    return f"the proxy {proxy.place}" if proxy else "a proxy on the way"


def length_text(seconds: float) -> str:
    """A length of time in words, for example 6.5 s or 2 min 5 s."""
    minutes, left_s = divmod(round(seconds), MINUTE_S)
    hours, left_min = divmod(minutes, MINUTE_S)
    if hours:
        return f"{hours} h {left_min} min"
    return f"{minutes} min {left_s} s" if minutes else f"{f'{seconds:.1f}'.removesuffix('.0')} s"


def provider_text(text: str, target: Target) -> str:
    """A provider's own text: on one line, short, and without anything that looks like our key."""
    line = "".join(char if char.isprintable() else " " for char in text[:SCANNED_CHARS_MAX])
    clean = _WORD.sub(lambda found: _masked(found.group(), target), " ".join(line.split()))
    return clean if len(clean) <= PROVIDER_CHARS_MAX else clean[: PROVIDER_CHARS_MAX - 1].rstrip() + "…"


def _masked(word: str, target: Target) -> str:
    return KEY_MARK if any(_like(word, secret) for secret in secrets_of(target)) else word


def secrets_of(target: Target) -> tuple[str, ...]:
    """A target's key, the values of headers whose names suggest a key, and its proxy's password."""
    named = [
        value
        for name, value in target.headers.items()
        if any(part in name.lower() for part in _SECRET_HEADERS)
    ]
    words = (word for value in (target.api_key, *named) for word in value.split())
    keys = tuple(word for word in words if word.lower() not in {"bearer", "basic", ""})
    return (*keys, *proxy_secrets(target.proxy))


def _like(word: str, secret: str) -> bool:
    """Whether a word is the secret, a part of it, or starts or ends like it; a short key is a dummy.

    An ordinary word isn't: a key such as `test-upstream-key` must not hide the word "upstream".
    """
    if len(secret) < SHORT_KEY_CHARS or _is_ordinary(word):
        return word == secret
    core = word.strip(".*")
    if len(core) < LIKE_A_KEY_CHARS:
        return False
    head, tail = secret[:LIKE_A_KEY_CHARS], secret[-LIKE_A_KEY_CHARS:]
    return core in secret or core.startswith(head) or core.endswith(tail) or secret in core


def _is_ordinary(word: str) -> bool:
    """Whether it's a word of a language, and not a piece of a random key."""
    word = word.rstrip(".")
    return word.isalpha() and (word.islower() or word.isupper() or word.istitle())
