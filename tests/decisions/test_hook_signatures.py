"""Signatures of webhooks: right ones, forged ones and old ones, and which delivery is which."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

import pytest

from holdfast.decisions.hook_signatures import (
    BODY_REPLAY_MS,
    FOREVER_MS,
    GITHUB_REPLAY_MS,
    HookDelivery,
    HookSignature,
    challenge,
    delivery_key,
    event_of,
    is_signed,
    likely_signature,
    standard_key,
)

NOW_S = 1_800_000_000
NOW_MS = 1000 * NOW_S
SECRET = "whsec_" + b64encode(b"0123456789abcdef0123456789abcdef").decode()
BODY = b'{"id": "evt_1", "type": "thing.made", "event_id": "Ev1"}'
KINDS: tuple[HookSignature, ...] = ("github", "slack", "stripe", "standard", "bearer")


def signed(
    kind: HookSignature,
    body: bytes = BODY,
    *,
    at_s: int = NOW_S,
    secret: str = SECRET,
    more: Mapping[str, str] | None = None,
) -> HookDelivery:
    """A delivery as the sender of this kind signs it."""

    def code(text: str) -> str:
        return hmac.new(secret.encode(), text.encode() + body, sha256).hexdigest()

    standard = hmac.new(standard_key(secret), f"msg_1.{at_s}.".encode() + body, sha256).digest()
    own = {
        "github": {"x-hub-signature-256": f"sha256={code('')}", "x-github-delivery": "g1"},
        "slack": {
            "x-slack-request-timestamp": str(at_s),
            "x-slack-signature": f"v0={code(f'v0:{at_s}:')}",
        },
        "stripe": {"stripe-signature": f"t={at_s},v1=00,v1={code(f'{at_s}.')},v0=11"},
        "standard": {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(at_s),
            "webhook-signature": f"v1,AAAA v1,{b64encode(standard).decode()}",
        },
        "bearer": {"authorization": f"Bearer {secret}"},
    }[kind]
    return HookDelivery(own | dict(more or {}), body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_signature_is_taken_and_anything_else_is_not(kind: HookSignature) -> None:
    """P14: another body, another secret, no signature, the signature of another kind."""
    right = signed(kind)
    assert is_signed(right, kind, secret=SECRET, now_ms=NOW_MS)
    assert likely_signature(right) == kind
    assert not is_signed(signed(kind, secret=SECRET[::-1]), kind, secret=SECRET, now_ms=NOW_MS)
    assert not is_signed(HookDelivery({}, BODY), kind, secret=SECRET, now_ms=NOW_MS)
    for other in set(KINDS) - {kind}:
        assert not is_signed(right, other, secret=SECRET, now_ms=NOW_MS)
    if kind != "bearer":
        assert not is_signed(HookDelivery(right.headers, BODY + b" "), kind, secret=SECRET, now_ms=NOW_MS)


@pytest.mark.parametrize("kind", ["slack", "stripe", "standard"])
@pytest.mark.parametrize("away_s", [-301, 301])
def test_an_old_or_early_delivery_is_refused_though_its_signature_is_right(
    kind: HookSignature, away_s: int
) -> None:
    assert not is_signed(signed(kind, at_s=NOW_S + away_s), kind, secret=SECRET, now_ms=NOW_MS)
    near = signed(kind, at_s=NOW_S + away_s - (1 if away_s > 0 else -1))
    assert is_signed(near, kind, secret=SECRET, now_ms=NOW_MS)
    odd = {"slack": "x-slack-request-timestamp", "standard": "webhook-timestamp"}.get(kind)
    if odd:
        bad = HookDelivery({**signed(kind).headers, odd: "soon"}, BODY)
        assert not is_signed(bad, kind, secret=SECRET, now_ms=NOW_MS)


def test_what_only_asks_whether_somebody_is_there_is_answered() -> None:
    ping = signed("github", more={"x-github-event": "ping"})
    assert challenge(ping, "github") == {"ok": True}
    asks = HookDelivery({}, b'{"type": "url_verification", "challenge": "abc"}')
    assert challenge(asks, "slack") == {"challenge": "abc"}
    assert challenge(asks, "stripe") is None
    assert challenge(HookDelivery({}, b"[1]"), "slack") is None


def test_each_sender_names_its_deliveries_in_its_own_way() -> None:
    """P14: an id that the sender signs holds for good, a body alone for a while."""
    for kind in ("stripe", "slack", "standard"):
        key = delivery_key(signed(kind), kind, now_ms=NOW_MS)
        assert (key.once, key.expires_at_ms) == (key.delivery_id, FOREVER_MS)
        assert key.delivery_id.startswith(kind)
    github = delivery_key(signed("github"), "github", now_ms=NOW_MS)
    again = delivery_key(signed("github", more={"x-github-delivery": "g2"}), "github", now_ms=NOW_MS)
    assert github.once == again.once
    assert github.delivery_id != again.delivery_id
    assert github.expires_at_ms == NOW_MS + GITHUB_REPLAY_MS
    bare = delivery_key(signed("bearer"), "bearer", now_ms=NOW_MS)
    assert bare.expires_at_ms == NOW_MS + BODY_REPLAY_MS
    named = delivery_key(signed("bearer", more={"idempotency-key": "k"}), "bearer", now_ms=NOW_MS)
    assert named.expires_at_ms == FOREVER_MS
    nameless = delivery_key(HookDelivery({}, b'{"id": 7}'), "stripe", now_ms=NOW_MS)
    assert nameless.once.startswith("body/")


def test_what_happened_is_named_as_the_sender_does() -> None:
    assert event_of(signed("github", more={"x-github-event": "push"}), "github") == "push"
    assert event_of(signed("stripe"), "stripe") == "thing.made"
    nested = HookDelivery({}, b'{"type": "event_callback", "event": {"type": "message"}}')
    assert event_of(nested, "slack") == "message"
    assert event_of(HookDelivery({}, b"no JSON"), "bearer") == ""
    assert standard_key("no base64!") == b"no base64!"
