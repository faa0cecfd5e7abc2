"""A sign-in at a fake issuer, and a line to the fake backend that takes its tokens."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes.issuer import ACCOUNT, CodexBackend, FakeIssuer
from holdfast.chaos import ChaosServer, Script
from holdfast.config.settings import ServerSettings, Settings, SignInName, SignInSettings, TargetSettings
from holdfast.features.sign_ins.sign_ins import SignInPatience, open_sign_ins
from holdfast.features.sign_ins.tokens import FOLDER, Tokens, Vault, expiry_ms
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.journal import Store
from holdfast.interfaces.model import Authorize
from holdfast.journal.memory import MemoryStore
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.targets import Target
from models.calls.calling import Line, TestClock, line_to

PATH = "/backend-api/codex"
RENEW = "/oauth/token"


def settings_of(
    folder: Path, issuer: FakeIssuer, *, auth: SignInName = "codex", base_url: str = ""
) -> Settings:
    """A configuration with one target that uses the sign-in."""
    target = TargetSettings(
        name="main", wire="responses", base_url=base_url or f"{issuer.url}{PATH}", model="gpt-x", auth=auth
    )
    assert auth
    return Settings(
        server=ServerSettings(data_dir=str(folder)),
        targets=(target,),
        sign_ins=(SignInSettings(name=auth, issuer=issuer.url),),
    )


def tokens_of(issuer: FakeIssuer, clock: Clock, *, left_s: float | None = None) -> Tokens:
    """The tokens of the issuer's newest session, of which so much is left."""
    session, now_ms = issuer.sessions[-1], clock.now_ms()
    left_s = issuer.life_s if left_s is None else left_s
    return Tokens(
        access_token=session.access[-1],
        refresh_token=session.refresh_token,
        account=ACCOUNT,
        issued_ms=now_ms - int(1000 * (issuer.life_s - left_s)),
        expires_ms=now_ms + int(1000 * left_s) if left_s <= 0 else expiry_ms(now_ms, left_s),
    )


def vault_in(folder: Path, name: str = "codex") -> Vault:
    """The vault of a sign-in of one program."""
    return Vault(folder / FOLDER, name, None, is_shared=False)


async def keep(folder: Path, tokens: Tokens, name: str = "codex") -> None:
    """Store tokens as a sign-in does."""
    vault = vault_in(folder, name)
    async with vault.exclusive():
        await vault.stage(tokens)
        await vault.recover()


@dataclass(slots=True)
class Signed:
    """A line to the backend, and everything behind it."""

    line: Line
    issuer: FakeIssuer
    server: ChaosServer
    backend: CodexBackend
    folder: Path
    authorize: Authorize
    target: Target
    secrets: Redactor
    store: Store

    @property
    def tokens_sent(self) -> list[str]:
        """The token of each request."""
        seen = self.server.seen.requests
        return [request.headers.get("authorization", "").removeprefix("Bearer ") for request in seen]

    @property
    def renewals(self) -> int:
        """How often the issuer was asked for new tokens."""
        return len(self.issuer.asked(RENEW))


@asynccontextmanager
async def signed_in(
    folder: Path,
    *scripts: Script,
    issuer: FakeIssuer | None = None,
    left_s: float | None = None,
    patience: SignInPatience | None = None,
) -> AsyncGenerator[Signed]:
    """Somebody is signed in, and the token lasts for so long."""
    clock = TestClock()
    secrets = Redactor()
    issuer = issuer or FakeIssuer()
    backend = CodexBackend(issuer, *scripts)
    async with issuer, ChaosServer(choose=backend) as server:
        issuer.sign_in()
        await keep(folder, tokens_of(issuer, clock, left_s=left_s))
        settings = settings_of(folder, issuer, base_url=f"{server.url}{PATH}")
        (target,) = settings.model_targets()
        store = MemoryStore(NO_SECRETS)
        context = FeatureContext(settings, store, clock, secrets)
        async with (
            open_sign_ins(context, patience=patience) as authorize,
            line_to(target, clock=clock) as line,
        ):
            line.authorize = authorize
            yield Signed(line, issuer, server, backend, folder, authorize, target, secrets, store)
        await store.close()
