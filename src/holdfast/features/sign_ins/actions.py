"""`holdfast auth`: sign in, import, show and delete sign-ins."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.cli.attach import EXPECTED_ERRORS, FAILED, OK, report_error
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.load import load, read_environment
from holdfast.config.proxies import proxy_for
from holdfast.config.settings import Settings
from holdfast.features.sign_ins.imports import NotImportable, codex_file, read_codex
from holdfast.features.sign_ins.issuer import Issuer, TokenUnavailable, open_issuer
from holdfast.features.sign_ins.providers import NAMES, SignInProvider, provider_of
from holdfast.features.sign_ins.sign_ins import vault_of
from holdfast.features.sign_ins.tokens import Tokens, Vault
from holdfast.interfaces.system_clock import SystemClock
from holdfast.safe_text import safe_line

Flags = Mapping[str, object]
CODEX = "codex"
RENEWED_NEXT = "signed in; renewed at the next call"


def login(flags: Flags, name: str) -> int:
    """Sign a person in with a code."""

    async def work(settings: Settings, environ: Mapping[str, str]) -> int:
        clock = SystemClock()
        provider = _provider(settings, name)
        async with _issuer(provider, environ) as issuer:
            code = await issuer.device_code()
            echo(f"Open {safe_line(code.url)} and enter the code {safe_line(code.user_code)}")
            if sys.stdout.isatty():
                echo_error("Waiting for you to sign in. Never enter a code that someone else sends you.")
            tokens = await issuer.signed_in(code, clock.now_ms)
        await keep(settings, name, tokens)
        echo(f"Signed in to {provider.title}.")
        _show_use(settings, name, provider)
        return OK

    return _run(flags, work)


def import_codex(flags: Flags, file: Path | None) -> int:
    """Copy the sign-in of the Codex CLI."""

    async def work(settings: Settings, environ: Mapping[str, str]) -> int:
        path = file or codex_file(environ)
        tokens = await asyncio.to_thread(read_codex, path, now_ms=SystemClock().now_ms())
        await keep(settings, CODEX, tokens)
        echo(f"Copied the sign-in from {path}.")
        echo_error(
            "The Codex CLI has the same refresh token: the first program that renews it signs the other out. "
            "To keep both signed in, run `holdfast auth login codex`."
        )
        _show_use(settings, CODEX, _provider(settings, CODEX))
        return OK

    return _run(flags, work)


def status(flags: Flags, *, form: str) -> int:
    """Print the sign-ins, without tokens."""

    async def work(settings: Settings, _: Mapping[str, str]) -> int:
        now_ms = SystemClock().now_ms()
        rows = [await _row(settings, name, now_ms) for name in NAMES]
        if form == "json":
            print_json([dict(zip(("name", "state", "account", "targets"), row, strict=True)) for row in rows])
        else:
            print_columns(("NAME", "STATE", "ACCOUNT", "TARGETS"), rows)
        if settings.server.store and form == "text":
            echo_error(
                "The sign-ins are in the database. `holdfast doctor` doesn't read them; use a target to test."
            )
        return OK

    return _run(flags, work)


def logout(flags: Flags, name: str) -> int:
    """Delete a sign-in, and revoke it if the issuer supports that."""

    async def work(settings: Settings, environ: Mapping[str, str]) -> int:
        provider = _provider(settings, name)
        vault = _vault(settings, name)
        async with _exclusive(vault):
            if settings.server.store:
                tokens = Tokens()
                await vault.stage(tokens)  # the server deletes what is in the database
            else:
                tokens = await vault.recover()
                await vault.forget()
        if tokens is None:
            echo_error(f"You weren't signed in to {provider.title}.")
            return FAILED
        echo(f"Signed out of {provider.title}.")
        async with _issuer(provider, environ) as issuer:
            await issuer.revoke(tokens)
        return OK

    return _run(flags, work)


async def keep(settings: Settings, name: str, tokens: Tokens) -> None:
    """Store the tokens of a person who has just signed in. With a database, its server does."""
    vault = _vault(settings, name)
    async with _exclusive(vault):
        await vault.stage(tokens)
        if not settings.server.store:
            await vault.recover()


def _run(flags: Flags, work: Callable[[Settings, Mapping[str, str]], Coroutine[Any, Any, int]]) -> int:
    try:
        inputs = read_environment(flags)
        return asyncio.run(work(load(inputs).settings, inputs.environ))
    except (TokenUnavailable, NotImportable) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    except EXPECTED_ERRORS as error:
        return report_error(error)


def _provider(settings: Settings, name: str) -> SignInProvider:
    if name == "claude":
        raise TokenUnavailable(
            "a Claude subscription can't be used: its terms reserve it for Anthropic's own apps. Use an API "
            "key, or run Claude Code with Holdfast as its relay"
        )
    if name not in NAMES:
        raise TokenUnavailable(f"{name!r} isn't a sign-in; choose one of {', '.join(NAMES)}")
    return provider_of(name, settings.sign_ins)


def _vault(settings: Settings, name: str) -> Vault:
    return vault_of(settings, name, None)


@asynccontextmanager
async def _exclusive(vault: Vault) -> AsyncGenerator[None]:
    """The vault's lock, or TokenUnavailable after a while."""
    try:
        async with vault.exclusive():
            yield
    except TimeoutError:
        raise TokenUnavailable("another program is renewing this sign-in; try again in a minute") from None


def _issuer(provider: SignInProvider, environ: Mapping[str, str]) -> AbstractAsyncContextManager[Issuer]:
    proxy = proxy_for(provider.issuer, environ)
    return open_issuer(provider, proxy=proxy.url if proxy is not None and proxy.is_usable else "")


async def _row(settings: Settings, name: str, now_ms: int) -> tuple[str, str, str, str]:
    tokens = await _vault(settings, name).read()
    targets = ", ".join(target.name for target in settings.targets if target.auth == name)
    if tokens is None:
        return name, "unknown" if settings.server.store else "signed out", "", targets
    is_valid = tokens.left_ms(now_ms) > 0
    state = f"signed in; renewed before {when(tokens.expires_ms / 1000)}" if is_valid else RENEWED_NEXT
    return name, state, tokens.account, targets


def _show_use(settings: Settings, name: str, provider: SignInProvider) -> None:
    """How to use it, if no target does."""
    if any(target.auth == name for target in settings.targets):
        return
    echo("Add a target to holdfast.toml, with any model of your plan:\n")
    echo(
        f'[[targets]]\nname = "{name}"\nwire = "{provider.wire}"\nbase_url = "{provider.base_url}"\n'
        f'model = "{provider.model}"\nauth = "{name}"'
    )
