"""Whether a delivery is signed by somebody who knows the hook's secret, and which delivery it is.

All comparisons take the same time for right and wrong signatures, and nothing of the body is parsed before
one is right. A sender's name for a delivery makes it the same delivery each time it comes.
"""

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

TOLERANCE_S = 300  # how far a signed time may be away
GITHUB_REPLAY_MS = 7 * 86_400_000
BODY_REPLAY_MS = 600_000
FOREVER_MS = 253_370_764_800_000
HookSignature: TypeAlias = Literal["github", "slack", "stripe", "standard", "bearer"]

_HEADERS: Mapping[str, HookSignature] = {
    "x-hub-signature-256": "github",
    "x-slack-signature": "slack",
    "stripe-signature": "stripe",
    "webhook-signature": "standard",
}
_SIGNATURES_MAX = 10
_FIELDS_MAX = 1_000
_NAME_CHARS_MAX = 200


class HookDelivery(Struct, frozen=True):
    """A delivery as it came; names of headers are in small letters."""

    headers: Mapping[str, str]
    body: bytes


class DeliveryKey(Struct, frozen=True):
    """Which delivery it is, and under which key it is stored once, until when."""

    delivery_id: str
    once: str
    expires_at_ms: int
    digest: str = ""  # of the body, where the same key must not stand for another one


def likely_signature(delivery: HookDelivery) -> HookSignature:
    """The kind of signature that the headers speak of."""
    for name, kind in _HEADERS.items():
        if name in delivery.headers:
            return kind
    return "bearer"


def is_signed(delivery: HookDelivery, kind: HookSignature, *, secret: str, now_ms: int) -> bool:
    """Whether the signature is right, and the time that it signs, if any, is near."""
    headers, body = delivery.headers, delivery.body
    match kind:
        case "github":
            return _same(headers.get("x-hub-signature-256", ""), f"sha256={_hex(secret, body)}")
        case "slack":
            at = headers.get("x-slack-request-timestamp", "")
            right = slack_signature(secret, at, body)
            return _same(headers.get("x-slack-signature", ""), right) & _is_near(at, now_ms)
        case "stripe":
            return _is_stripe(headers.get("stripe-signature", ""), body, secret=secret, now_ms=now_ms)
        case "standard":
            return _is_standard(delivery, secret=secret, now_ms=now_ms)
        case "bearer":
            scheme, _, token = headers.get("authorization", "").partition(" ")
            return _same(token.strip(), secret) & (scheme.lower() == "bearer")


def slack_signature(secret: str, at: str, body: bytes) -> str:
    """How Slack signs a body that it sends at this time, in seconds."""
    return f"v0={_hex(secret, f'v0:{at}:'.encode() + body)}"


def challenge(delivery: HookDelivery, kind: HookSignature) -> Mapping[str, object] | None:
    """The answer to a request that only asks whether somebody is there; None if it is a delivery."""
    if kind == "github" and delivery.headers.get("x-github-event") == "ping":
        return {"ok": True}
    body = _object(delivery.body)
    if kind == "slack" and body.get("type") == "url_verification":
        return {"challenge": str(body.get("challenge", ""))[:1_000]}
    return None


def event_of(delivery: HookDelivery, kind: HookSignature) -> str:
    """Return the sender's event name."""
    body = _object(delivery.body)
    nested = body.get("event")
    inner = cast("Mapping[str, object]", nested).get("type") if isinstance(nested, Mapping) else None
    named = {
        "github": delivery.headers.get("x-github-event"),
        "slack": inner or body.get("type"),
        "stripe": body.get("type"),
        "standard": body.get("type"),
        "bearer": body.get("type"),
    }[kind]
    return named[:_NAME_CHARS_MAX] if isinstance(named, str) and named.isprintable() else ""


def delivery_key(delivery: HookDelivery, kind: HookSignature, *, now_ms: int) -> DeliveryKey:
    """Which delivery this is.

    GitHub doesn't sign the id of a delivery, so the same body under a new one is a replay for a week. A
    delivery without any id is the same as one with the same body, for ten minutes.
    """
    digest = sha256(delivery.body).hexdigest()
    name = _name_of(delivery, kind)
    if name and kind == "github":
        return DeliveryKey(_id("github", name), f"body/{digest}", now_ms + GITHUB_REPLAY_MS)
    if name:
        found = _id(kind, name)
        return DeliveryKey(found, found, FOREVER_MS, digest if kind == "bearer" else "")
    return DeliveryKey(f"body-{digest[:32]}-{now_ms}", f"body/{digest}", now_ms + BODY_REPLAY_MS)


def payload_of(delivery: HookDelivery) -> bytes:
    """Return the payload; for a form, the field `payload` (as GitHub sends it), or all fields as JSON."""
    kind = delivery.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return delivery.body
    try:
        fields = dict(parse_qsl(delivery.body.decode(), max_num_fields=_FIELDS_MAX))
    except ValueError:  # too many fields, or no text
        return delivery.body
    return fields["payload"].encode() if "payload" in fields else msgspec.json.encode(fields)


def _name_of(delivery: HookDelivery, kind: HookSignature) -> str:
    match kind:
        case "github":
            return delivery.headers.get("x-github-delivery", "")
        case "standard":
            return delivery.headers.get("webhook-id", "")
        case "stripe":
            found = _object(delivery.body).get("id")
        case "slack":
            found = _object(delivery.body).get("event_id")
        case "bearer":
            found = delivery.headers.get("idempotency-key")
    return found if isinstance(found, str) else ""


def _id(kind: str, name: str) -> str:
    """An id of one form, whatever letters the sender uses."""
    return f"{kind}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _is_stripe(header: str, body: bytes, *, secret: str, now_ms: int) -> bool:
    parts = [part.strip().partition("=") for part in header.split(",")]
    at = next((value for name, _, value in parts if name == "t"), "")
    right = _hex(secret, f"{at}.".encode() + body)
    given = [value for name, _, value in parts if name == "v1"]
    return _any_same(given, right) & _is_near(at, now_ms)


def _is_standard(delivery: HookDelivery, *, secret: str, now_ms: int) -> bool:
    headers = delivery.headers
    id_, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signed = f"{id_}.{at}.".encode("utf-8", "surrogatepass") + delivery.body
    right = "v1," + b64encode(hmac.digest(standard_key(secret), signed, "sha256")).decode()
    given = headers.get("webhook-signature", "").split()
    return _any_same(given, right) & _is_near(at, now_ms) & bool(id_)


def standard_key(secret: str) -> bytes:
    """The bytes of a secret of Standard Webhooks, which is written in base64 after `whsec_`."""
    try:
        return b64decode(secret.removeprefix("whsec_"), validate=True) or secret.encode()
    except (BadBase64, ValueError):
        return secret.encode()


def _hex(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, "sha256").hex()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


def _any_same(given: list[str], right: str) -> bool:
    is_right = False
    for one in given[:_SIGNATURES_MAX]:
        is_right |= _same(one, right)
    return is_right


def _is_near(at: str, now_ms: int) -> bool:
    if not re.fullmatch(r"[0-9]{1,12}", at):
        return False
    return abs(int(at) - now_ms // 1000) <= TOLERANCE_S


def _object(body: bytes) -> Mapping[str, Any]:
    """The body as a JSON object; empty if it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
