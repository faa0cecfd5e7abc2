"""Servers that want a sign-in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from features.mcp_client.locked import Locked, Visitor, kept, locked, place
from features.mcp_client.scene import ENVIRONMENT, QUICK, McpCall, run
from holdfast.config.fields import Secret
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.config.settings import McpOAuthSettings
from holdfast.features.mcp_client.http import SignInFailed
from holdfast.features.mcp_client.servers import McpServers
from holdfast.features.mcp_client.sign_in import read_redirect, sign_in
from holdfast.features.mcp_client.sign_in_addresses import SignInAddresses, SignInAddressRefused
from tools.calls import until

WITHIN_S = 20.0


@asynccontextmanager
async def used(config: McpServerConfig, folder: Path) -> AsyncGenerator[McpServers]:
    async with McpServers([config], environment=ENVIRONMENT, patience=QUICK, place=place(folder)) as of:
        yield of


async def signed_in(at: Locked, folder: Path, visitor: Visitor | None = None, **more: Any) -> Visitor:
    visitor = visitor or Visitor()
    await sign_in(at.config(**more), place=place(folder), person=visitor, within_s=WITHIN_S)
    return visitor


async def test_a_server_that_wants_a_sign_in_says_so_and_works_after_it_without_a_restart(
    tmp_path: Path, call: McpCall
) -> None:
    async with locked(Locked()) as at, used(at.config(), tmp_path) as of:
        await of.tried_once(within_s=WITHIN_S)
        assert of.status()[0].why == "it needs you to sign in; run `holdfast mcp-sign-in locked`"
        visitor = await signed_in(at, tmp_path)
        assert "code_challenge_method=S256" in visitor.shown[0]
        assert "scope=read" in visitor.shown[0]
        assert at.grants[0]["resource"] == [at.url]
        result = await run(of, "echo", call, label="locked", a=1)
        assert result.text == '{"a": 1}'
        assert kept(tmp_path)["access_token"] == f"access-token-{at.tokens}"
        assert at.asked.count("/register") == 1


async def test_tokens_are_renewed_when_they_end_and_when_the_server_refuses_them(
    tmp_path: Path, call: McpCall
) -> None:
    async with locked(Locked(expires_in=1)) as at:
        await signed_in(at, tmp_path)
        at.expires_in = 3600
        async with used(at.config(), tmp_path) as of:  # the first token is as good as over
            assert (await run(of, "echo", call, label="locked")).ok
            assert at.tokens == 2
            at.revoked = 2
            assert (await run(of, "echo", call, label="locked")).ok
            assert at.tokens == 3
            at.revoked, at.refuse_renewal = 3, True
            refused = await run(of, "echo", call, label="locked")
            assert "holdfast mcp-sign-in locked" in refused.text


@pytest.mark.parametrize("methods", [None, [], ["plain"]], ids=str)
async def test_nobody_signs_in_where_pkce_is_not_supported(tmp_path: Path, methods: list[str] | None) -> None:
    """P11: the protocol says to refuse; a code that someone intercepts would be enough to sign in."""
    async with locked(Locked(metadata={"code_challenge_methods_supported": methods})) as at:
        visitor = Visitor()
        with pytest.raises(SignInFailed, match="PKCE"):
            await signed_in(at, tmp_path, visitor)
        assert visitor.shown == []
        assert at.grants == []


async def test_more_permissions_are_asked_for_together_with_those_given(
    tmp_path: Path, call: McpCall
) -> None:
    async with locked(Locked(wish="more")) as at:
        await signed_in(at, tmp_path)
        async with used(at.config(), tmp_path) as of:
            refused = await run(of, "echo", call, label="locked")
            assert "it needs more permissions (write); run `holdfast mcp-sign-in locked`" in refused.text
            visitor = await signed_in(at, tmp_path)
            assert "scope=read+write" in visitor.shown[0]
            at.wish = ""
            assert (await run(of, "echo", call, label="locked")).ok


async def test_a_token_that_the_server_repeats_is_not_shown(tmp_path: Path, call: McpCall) -> None:
    async with locked(Locked()) as at:
        await signed_in(at, tmp_path)
        async with used(at.config(), tmp_path) as of:
            said = (await run(of, "echo", call, label="locked", a="access-token-1 refresh-token-1")).text
            assert "token-1" not in said


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metadata": {"token_endpoint": "http://192.0.2.1/token"}}, "isn't an https URL"),
        ({"metadata": {"authorization_endpoint": "http://192.0.2.1/login"}}, "isn't a plain https URL"),
        ({"metadata": {"issuer": "https://other.example.com"}}, "issuer mismatch"),
        ({"resource": {"resource": "https://other.example.com/mcp"}}, "does not match"),
        ({"resource": {"authorization_servers": ["http://192.0.2.1"]}}, "isn't an https URL"),
    ],
)
async def test_a_sign_in_that_leads_elsewhere_is_refused_and_leaves_no_token(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    async with locked(Locked(**changed)) as at:
        with pytest.raises(SignInFailed, match=why):
            await signed_in(at, tmp_path)
        assert not at.tokens
        files = list((tmp_path / "sign-ins").glob("*.json"))
        assert not any(msgspec.json.decode(file.read_bytes()).get("access_token") for file in files)


async def test_an_answer_of_another_sign_in_or_issuer_is_refused(tmp_path: Path) -> None:
    async with locked(Locked()) as at:
        with pytest.raises(SignInFailed, match="State parameter mismatch"):
            await signed_in(at, tmp_path, Visitor(changed={"state": "another"}))
        with pytest.raises(SignInFailed, match="iss"):
            await signed_in(at, tmp_path, Visitor(changed={"iss": "https://other.example.com"}))
        with pytest.raises(SignInFailed, match="access_denied You said no"):
            await signed_in(
                at, tmp_path, Visitor(changed={"error": "access_denied", "error_description": "You said no"})
            )
        assert not at.tokens


async def test_a_client_secret_goes_to_its_issuer_alone(tmp_path: Path) -> None:
    async with locked(Locked()) as at:
        secret = Secret(f"a-secret-of-{tmp_path.name}")
        own = McpOAuthSettings(client_id="mine", client_secret=secret, issuer="https://my.example.com")
        await signed_in(at, tmp_path, oauth=own)
        assert at.grants[0]["client_id"] == ["client-1"]  # it registered instead
        own = McpOAuthSettings(client_id="mine", client_secret=secret, issuer=at.origin)
        await signed_in(at, tmp_path / "b", oauth=own)
        assert at.grants[1]["client_id"] == ["mine"]


async def test_tokens_of_one_address_are_not_sent_to_another(tmp_path: Path) -> None:
    async with locked(Locked()) as at, locked(Locked()) as other:
        await signed_in(at, tmp_path)
        async with used(other.config(), tmp_path) as of:
            await of.tried_once(within_s=WITHIN_S)
            assert "mcp-sign-in" in of.status()[0].why
        assert not any("authorization" in map(str.lower, one) for one in other.headers)


async def test_a_server_that_refuses_old_tokens_does_not_replace_new_ones(tmp_path: Path) -> None:
    async with locked(Locked()) as at, used(at.config(), tmp_path) as of:
        await of.tried_once(within_s=WITHIN_S)
        await signed_in(at, tmp_path)
        await until(lambda: of.status()[0].state == "connected")
        assert kept(tmp_path).get("challenge") is None


async def test_a_server_on_the_internet_cannot_name_a_machine_of_the_local_network() -> None:
    public = SignInAddresses("https://93.184.215.14/mcp")
    for url in ("https://127.0.0.1/token", "https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/"):
        with pytest.raises(SignInAddressRefused, match="private network"):
            await public.insist_on(url)
    for url in ("http://93.184.215.15/", "https://user@93.184.215.15/", "ftp://93.184.215.15/"):
        with pytest.raises(SignInAddressRefused, match="isn't an https URL"):
            await public.insist_on(url)
    await public.insist_on("https://93.184.215.15/token")
    await SignInAddresses("https://10.0.0.1/mcp").insist_on("https://10.0.0.2/token")


def test_a_pasted_address_needs_a_code() -> None:
    assert read_redirect("http://127.0.0.1:1/callback?code=a&state=b").code == "a"
    for url in ("", "http://[", "http://127.0.0.1/callback?state=b", "x" * 9_000):
        with pytest.raises(SignInFailed):
            read_redirect(url)
