"""The providers that people can sign in to, and how: read from a data file."""

from functools import cache
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from holdfast.config.settings import SignInName, SignInSettings
from holdfast.config.toml import parse_toml
from holdfast.decisions.deadlines import is_local
from holdfast.targets import Wire


class SignInProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to sign in at one issuer, and to use its tokens. Empty fields are steps that it doesn't have.

    A person signs in with the device flow (RFC 8628): `device_url` returns a code, and `poll_url` the tokens.
    With a `code_url`, polling returns an authorization code to exchange there. `renew_url` takes a refresh
    token, in `renew_header` if there is one. With an `exchange_url`, the token of the sign-in itself is only
    exchanged there for tokens that the API accepts.
    """

    title: str
    wire: Wire
    base_url: str
    model: str  # an example for people
    hosts: tuple[str, ...]  # that tokens are sent to, with all their subdomains
    issuer: str
    api: str = ""
    client_id: str
    scope: str = ""
    body: Literal["form", "json"] = "form"
    device_url: str
    device_id: str = "device_code"
    poll_url: str
    pending: tuple[int, ...] = ()  # the statuses of a poll before the person has decided
    verification_url: str = ""
    code_url: str = ""
    redirect_uri: str = ""
    renew_url: str = ""
    renew_header: str = ""
    exchange_url: str = ""
    exchange_headers: dict[str, str] = {}
    revoke_url: str = ""
    claims: str = ""  # the claim of a token with further claims
    account_claim: str = ""
    headers: dict[str, str] = {}  # of requests to the model

    @property
    def place(self) -> str:
        """The issuer's host, for people."""
        return urlsplit(self.issuer).netloc

    def url(self, template: str) -> str:
        """A URL of the issuer or its API."""
        return template.format(issuer=self.issuer, api=self.api)

    def may_have_token(self, url: str) -> bool:
        """Whether a token may be sent to this URL."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if is_local(host):
            return True
        return parts.scheme == "https" and any(host == one or host.endswith(f".{one}") for one in self.hosts)


NAMES = get_args(SignInName)[1:]


@cache
def _shipped() -> dict[str, SignInProvider]:
    text = Path(__file__).with_name("providers.toml").read_text("utf-8")
    return msgspec.convert(parse_toml(text), dict[str, SignInProvider])


def provider_of(name: str, settings: tuple[SignInSettings, ...]) -> SignInProvider:
    """The provider of this name, at the configured issuer. Blocks when it's first called."""
    provider = _shipped()[name]
    own = next((one for one in settings if one.name == name), None)
    if own is None:
        return provider
    issuer = own.issuer.rstrip("/")
    place = urlsplit(issuer)
    # GitHub Enterprise has its API, and that of Copilot, at subdomains.
    api = issuer if is_local(place.hostname or "") else f"{place.scheme}://api.{place.netloc}"
    return replace(provider, issuer=issuer, api=api, hosts=(*provider.hosts, place.hostname or ""))
