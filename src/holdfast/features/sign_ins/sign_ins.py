"""Gives requests of targets with `auth` their current token, and renews it.

A renewal has its own task: a run that is stopped meanwhile doesn't lose the new tokens. Runs wait for it
only if the token can't be used any more, and no longer than WAIT_S.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.settings import Settings
from holdfast.features.sign_ins.events import CredentialRefreshed
from holdfast.features.sign_ins.issuer import Issuer, TokenUnavailable, open_issuer
from holdfast.features.sign_ins.providers import SignInProvider, provider_of
from holdfast.features.sign_ins.tokens import ANSWER_S, FOLDER, LOCK_S, Tokens, Vault
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.journal import Fence, JournalError, Store
from holdfast.interfaces.model import Authorize
from holdfast.redaction import Redactor
from holdfast.targets import Target
from holdfast.values import Failure

_log = logging.getLogger(__name__)

WAIT_S = 25.0
PAUSE_MS = 30_000  # after a renewal that failed while the token could still be used
STORE_AGAIN_S = 1.0
SECRETS_KEPT = 3  # generations of tokens that texts are cleaned of
RULE = "sign_in"
LATER = "try again in a few minutes"


class SignInPatience(Struct, frozen=True):
    """How long to wait for an issuer's answer, for another program's renewal, and in all for a token."""

    answer_s: float = ANSWER_S
    lock_s: float = LOCK_S
    wait_s: float = WAIT_S


def login_advice(name: str) -> str:
    """The advice for a sign-in that ended."""
    return f"run `holdfast auth login {name}`"


class Account:
    """One sign-in, for all tasks of this process."""

    def __init__(
        self,
        provider: SignInProvider,
        vault: Vault,
        clock: Clock,
        *,
        issuer: Callable[[], AbstractAsyncContextManager[Issuer]],
        tasks: set[asyncio.Task[None]],
        secrets: Redactor,
    ) -> None:
        self._provider = provider
        self._vault = vault
        self._clock = clock
        self._open_issuer = issuer
        self._tasks = tasks
        self._secrets = secrets
        self._known: list[Tokens] = []  # the newest generations
        self._rejected = ""  # the token that the endpoint rejected last
        self._dead = ""  # the mark of tokens that the issuer refused to renew, and why
        self._why_dead = ""
        self._unstored: Tokens | None = None  # tokens that the store doesn't take yet
        self._renewing: asyncio.Future[Tokens] | None = None
        self._failed_ms = 0

    async def token(self, rejected: str) -> Tokens:
        """The tokens to use now; raises TokenUnavailable."""
        if rejected:
            self._rejected = rejected
        tokens = self._unstored or await self._stored()
        now_ms = self._clock.now_ms()
        if tokens is not None and self._is_usable(tokens, now_ms):
            if tokens.is_due(now_ms) and self._unstored is None and now_ms - self._failed_ms > PAUSE_MS:
                self._renewal()
            return tokens
        return await asyncio.shield(self._renewal())

    def _is_usable(self, tokens: Tokens, now_ms: int) -> bool:
        return tokens.left_ms(now_ms) > 0 and tokens.access_token != self._rejected

    async def _stored(self) -> Tokens | None:
        try:
            tokens = await self._vault.ready()
        except (JournalError, OSError) as error:
            if self._known:
                return self._known[-1]  # renewals wait until the store is back
            raise TokenUnavailable(f"its tokens can't be read: {error}") from error
        if tokens is not None:
            self._learn(tokens)
        return tokens

    def _learn(self, tokens: Tokens) -> None:
        """Remove them from all texts from now on, and the previous ones for a while."""
        if not self._known or self._known[-1] != tokens:
            forgotten = [one for old in self._known[: 1 - SECRETS_KEPT] for one in old.secrets]
            self._known = [*self._known[1 - SECRETS_KEPT :], tokens]
            known = [one for each in self._known for one in each.secrets]
            self._secrets.exchange(learn=known, forget=[one for one in forgotten if one not in known])

    def _renewal(self) -> asyncio.Future[Tokens]:
        """The renewal in progress, or a new one."""
        if self._renewing is None:
            self._renewing = done = asyncio.get_running_loop().create_future()
            done.add_done_callback(self._renewed)
            task = asyncio.create_task(self._renew(done), name=f"sign-in {self._vault.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._renewing

    def _renewed(self, done: asyncio.Future[Tokens]) -> None:
        self._renewing = None
        if done.cancelled():
            return
        error = done.exception()
        self._failed_ms = 0 if error is None else self._clock.now_ms()
        if error is not None:
            _log.warning("sign-in %s: %s", self._vault.name, error)

    async def _renew(self, done: asyncio.Future[Tokens]) -> None:
        """Renew the tokens unless another has done so. Every way out completes `done`."""
        try:
            async with self._vault.exclusive() as fence:
                await self._renew_alone(done, fence)
        except TimeoutError:
            _fail(
                done, TokenUnavailable(f"another program has been renewing it for {self._vault.lock_s:g} s")
            )
        except TokenUnavailable as error:
            _fail(done, TokenUnavailable(self._secrets.redact_text(str(error)), kind=error.kind))
        except (JournalError, OSError) as error:
            _fail(done, TokenUnavailable(f"its tokens can't be stored: {error}"))
        except Exception:  # noqa: BLE001  # a bug of ours must end the renewal as failed
            _log.exception("a sign-in failed because of a bug in Holdfast")
            _fail(done, TokenUnavailable("it failed because of a bug in Holdfast", kind="local_bug"))
        finally:
            if not done.done():
                done.set_exception(TokenUnavailable("the program is stopping"))

    async def _renew_alone(self, done: asyncio.Future[Tokens], fence: Fence | None) -> None:
        before = await self._vault.recover()
        if before is None or not before.secrets:
            raise TokenUnavailable("you aren't signed in", kind="auth")
        self._learn(before)
        now_ms, rejected = self._clock.now_ms(), self._rejected
        if self._is_usable(before, now_ms) and not before.is_due(now_ms):
            done.set_result(before)
            return
        if before.mark == self._dead:
            raise TokenUnavailable(self._why_dead, kind="auth")
        try:
            async with self._open_issuer() as issuer:
                tokens = await issuer.renewed(before, self._clock.now_ms)
                await self._stage(tokens, before)
        except TokenUnavailable as error:
            if error.kind == "auth":
                self._dead, self._why_dead = before.mark, str(error)  # so it's asked once
            raise
        self._learn(tokens)
        self._unstored = tokens
        done.set_result(tokens)
        if not await self._store(tokens, before):
            return  # somebody has signed in meanwhile
        event = CredentialRefreshed(
            at_ms=self._clock.now_ms(),
            name=self._vault.name,
            expires_at_ms=tokens.expires_ms,
            rejected=bool(rejected) and before.access_token == rejected,
        )
        try:
            await self._vault.record(event, fence)
        except JournalError as error:
            _log.warning("the renewal of the sign-in %s isn't on its log: %s", self._vault.name, error)

    async def _stage(self, tokens: Tokens, before: Tokens) -> None:
        """Write the tokens to this computer's disk; if it's full, they are only in memory until it isn't."""
        try:
            await self._vault.stage(tokens, over=before)
        except OSError as error:
            _log.warning("the sign-in %s isn't on disk yet: %s", self._vault.name, error)

    async def _store(self, tokens: Tokens, before: Tokens) -> bool:
        """Store the tokens, however long that takes; False if others were stored meanwhile."""
        while True:
            try:
                is_stored = await self._vault.store(tokens, over=before)
            except (JournalError, OSError) as error:
                _log.warning("the sign-in %s isn't stored yet: %s", self._vault.name, error)
                await asyncio.sleep(STORE_AGAIN_S)
            else:
                self._unstored = None
                return is_stored


def _fail(done: asyncio.Future[Tokens], error: TokenUnavailable) -> None:
    if done.done():
        _log.warning("after the renewal of a sign-in: %s", error)
    else:
        done.set_exception(error)


class ModelSignIns:
    """The sign-ins of this process; `authorize` is an `Authorize`."""

    def __init__(
        self,
        context: FeatureContext,
        providers: Mapping[str, SignInProvider],
        *,
        patience: SignInPatience,
        keeps_log: bool,
    ) -> None:
        self._context = context
        self._providers = providers
        self._patience = patience
        self._store = context.store if keeps_log else None
        self._accounts: dict[str, Account] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def authorize(self, target: Target, rejected: str) -> Target | Failure:
        """The target with its current token, or why there is none."""
        name, provider = target.auth, self._providers[target.auth]
        try:
            async with asyncio.timeout(self._patience.wait_s):
                tokens = await self._account(target).token(rejected)
        except TimeoutError:
            text = f"the sign-in {name} wasn't renewed in {self._patience.wait_s:g} s; {LATER}"
            return Failure(kind="server_error", text=text, rule=RULE)
        except TokenUnavailable as error:
            advice = login_advice(name) if error.kind == "auth" else LATER
            return Failure(kind=error.kind, text=f"the sign-in {name}: {error}; {advice}", rule=RULE)
        is_usual = target.base_url.rstrip("/") == provider.base_url
        base_url = tokens.base_url if tokens.base_url and is_usual else target.base_url
        if not provider.may_have_token(base_url):
            text = f"the token of {name} isn't sent to {base_url}; check base_url of target {target.name}"
            return Failure(kind="auth", text=text, rule=RULE)
        own = {header: value.format(account=tokens.account) for header, value in provider.headers.items()}
        headers = {header: value for header, value in own.items() if value} | target.headers
        return replace(target, api_key=tokens.access_token, base_url=base_url, headers=headers)

    async def close(self) -> None:
        """Complete the renewals in progress."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._patience.wait_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _account(self, target: Target) -> Account:
        """The account for the target; the first target's proxy is also the way to the issuer."""
        account = self._accounts.get(target.auth)
        if account is None:
            provider = self._providers[target.auth]
            account = self._accounts[target.auth] = Account(
                provider,
                vault_of(self._context.settings, target.auth, self._store, lock_s=self._patience.lock_s),
                self._context.clock,
                issuer=partial(open_issuer, provider, proxy=target.proxy, answer_s=self._patience.answer_s),
                tasks=self._tasks,
                secrets=self._context.secrets,
            )
        return account


@asynccontextmanager
async def open_sign_ins(
    context: FeatureContext, *, keeps_log: bool = True, patience: SignInPatience | None = None
) -> AsyncGenerator[Authorize]:
    """The sign-ins of the configured targets; leaving it completes renewals in progress."""
    settings = context.settings
    names = {target.auth for target in settings.targets if target.auth}
    providers = await asyncio.to_thread(
        lambda: {name: provider_of(name, settings.sign_ins) for name in names}
    )
    sign_ins = ModelSignIns(context, providers, patience=patience or SignInPatience(), keeps_log=keeps_log)
    try:
        yield sign_ins.authorize
    finally:
        await sign_ins.close()


def vault_of(settings: Settings, name: str, store: Store | None, *, lock_s: float = LOCK_S) -> Vault:
    """Where the tokens of this sign-in are."""
    is_shared = bool(settings.server.store and store)
    return Vault(settings.data_dir / FOLDER, name, store, is_shared=is_shared, lock_s=lock_s)
