"""The event in the log of a sign-in. It contains no token."""

from holdfast.events.bases import Event, OwnedEvent


class CredentialRefreshed(OwnedEvent, frozen=True, kw_only=True, tag="credential.refreshed"):
    """The issuer replaced the tokens of a sign-in, and they are stored.

    `rejected` means that the endpoint had rejected the earlier token; otherwise it was about to expire.
    """

    name: str
    expires_at_ms: int
    rejected: bool = False


EVENTS: tuple[type[Event], ...] = (CredentialRefreshed,)
