"""Renewals: one at a time, wherever they begin, and a crash in between keeps the newest tokens."""

import asyncio
import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace
from typing_extensions import override

from fakes.crash import CrashPoint
from fakes.exchanges import Hold
from fakes.issuer import FakeIssuer
from holdfast import events as e
from holdfast.chaos import Gate
from holdfast.features.sign_ins.events import CredentialRefreshed
from holdfast.features.sign_ins.issuer import Issuer, TokenUnavailable, open_issuer
from holdfast.features.sign_ins.providers import provider_of
from holdfast.features.sign_ins.sign_ins import Account, SignInPatience, open_sign_ins
from holdfast.features.sign_ins.tokens import FOLDER, Tokens, Vault
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.journal import Fence, Store, StoreUnreachable
from holdfast.interfaces.model import Authorize
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.targets import Target
from holdfast.values import Failure
from models.calls.calling import TestClock
from stores import PostgresStore

from .world import RENEW, keep, settings_of, tokens_of, vault_in

CLOCK = TestClock()
CODEX = provider_of("codex", ())  # read here, because it blocks


class CrashingVault(Vault):
    """A vault whose program dies before or after one of its steps."""

    crash: CrashPoint

    @override
    async def recover(self) -> Tokens | None:
        return await self.crash.around(super().recover)()

    @override
    async def stage(self, tokens: Tokens, *, over: Tokens | None = None) -> None:
        await self.crash.around(super().stage, when="after")(tokens, over=over)

    @override
    async def store(self, tokens: Tokens, *, over: Tokens | None) -> bool:
        stored = await self.crash.around(super().store)(tokens, over=over)
        self.crash.reach()
        return stored

    @override
    async def record(self, event: e.Event, fence: Fence | None) -> None:
        await self.crash.around(super().record)(event, fence)


class FullVault(Vault):
    """A vault on a disk that is full for a while."""

    full = 2

    def _write_or_fail(self) -> None:
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, "No space left on device")

    @override
    async def stage(self, tokens: Tokens, *, over: Tokens | None = None) -> None:
        self._write_or_fail()
        await super().stage(tokens, over=over)

    @override
    async def store(self, tokens: Tokens, *, over: Tokens | None) -> bool:
        self._write_or_fail()
        return await super().store(tokens, over=over)


class Program:
    """One program that uses the sign-in of a folder."""

    def __init__(self, issuer: FakeIssuer, vault: Vault) -> None:
        provider = replace(CODEX, issuer=issuer.url)
        self.tasks: set[asyncio.Task[None]] = set()

        @asynccontextmanager
        async def opened() -> AsyncGenerator[Issuer]:
            async with open_issuer(provider) as one:
                yield one

        self.account = Account(provider, vault, CLOCK, issuer=opened, tasks=self.tasks, secrets=Redactor())

    async def token(self, rejected: str = "") -> str:
        """Its token, once everything is stored."""
        tokens = await self.account.token(rejected)
        await self.ended()
        return tokens.access_token

    async def ended(self) -> None:
        """Wait until its renewals have ended, by a crash or not."""
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_crash_at_any_point_after_the_answer_is_on_disk_keeps_the_newer_token(tmp_path: Path) -> None:
    """P6: the issuer takes each refresh token once, and one that is used again would end the sign-in."""
    nth = 0
    for nth in count(1):
        folder = tmp_path / str(nth)
        async with FakeIssuer() as issuer:
            session = issuer.sign_in()
            await keep(folder, tokens_of(issuer, CLOCK, left_s=-1))
            vault = CrashingVault(folder / FOLDER, "codex", None, is_shared=False)
            vault.crash = CrashPoint(nth)
            program = Program(issuer, vault)
            with suppress(TokenUnavailable):
                await program.account.token("")
            await program.ended()
            assert await Program(issuer, vault_in(folder)).token() == session.access[1]
            assert not session.is_revoked
            assert len(issuer.asked(RENEW)) == 1
            assert sorted(path.name for path in (folder / FOLDER).iterdir()) == ["codex.json", "codex.lock"]
        if not vault.crash.has_crashed:
            break
    assert nth > 4


async def test_a_full_disk_loses_no_token(tmp_path: Path) -> None:
    """The new token is used meanwhile, and stored when there is room."""
    async with FakeIssuer() as issuer:
        session = issuer.sign_in()
        await keep(tmp_path, tokens_of(issuer, CLOCK, left_s=-1))
        program = Program(issuer, FullVault(tmp_path / FOLDER, "codex", None, is_shared=False))
        assert (await program.account.token("")).access_token == session.access[1]
        assert await program.token() == session.access[1]
        assert await Program(issuer, vault_in(tmp_path)).token() == session.access[1]
        assert len(issuer.asked(RENEW)) == 1


async def test_two_programs_of_a_folder_renew_once_and_a_third_that_is_stuck_holds_up_nobody_for_long(
    tmp_path: Path,
) -> None:
    """P3, P10."""
    async with FakeIssuer() as issuer:
        session = issuer.sign_in()
        await keep(tmp_path, tokens_of(issuer, CLOCK, left_s=-1))
        programs = [Program(issuer, vault_in(tmp_path)) for _ in range(2)]
        assert await asyncio.gather(*(one.token() for one in programs)) == [session.access[1]] * 2
        assert len(issuer.asked(RENEW)) == 1
        gate = Gate()
        issuer.scripts[RENEW] = [[Hold(gate)]]
        stuck = asyncio.create_task(programs[0].token(session.access[1]))
        await gate.reached()
        impatient = Program(issuer, Vault(tmp_path / FOLDER, "codex", None, is_shared=False, lock_s=0.05))
        with pytest.raises(TokenUnavailable, match="another program has been renewing it"):
            await impatient.token(session.access[1])
        gate.open()
        assert await stuck == session.access[2]


async def test_a_sign_in_during_a_renewal_is_kept(tmp_path: Path) -> None:
    """A person's sign-in waits for the renewal, and is newer."""
    gate = Gate()
    async with FakeIssuer() as issuer:
        issuer.sign_in()
        await keep(tmp_path, tokens_of(issuer, CLOCK, left_s=-1))
        issuer.scripts[RENEW] = [[Hold(gate)]]
        program = Program(issuer, vault_in(tmp_path))
        renewing = asyncio.create_task(program.token())
        await gate.reached()
        new = issuer.sign_in()
        signing_in = asyncio.create_task(keep(tmp_path, tokens_of(issuer, CLOCK)))
        gate.open()
        await asyncio.gather(renewing, signing_in)
        assert await program.token() == new.access[0]


class AwayStore(PostgresStore):
    """A store that takes no notes for a while."""

    away = 0

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        if key.startswith("sign-in/") and self.away:
            self.away -= 1
            raise StoreUnreachable("the database is away")
        return await super().swap_note(key, value, expected=expected)


@asynccontextmanager
async def node(
    folder: Path, dsn: str, name: str, issuer: FakeIssuer
) -> AsyncGenerator[tuple[Store, Authorize, Target]]:
    """A server that shares a database, with the sign-ins of its runs."""
    settings = settings_of(folder / name, issuer)
    settings = replace(settings, server=replace(settings.server, store=dsn))
    store = await AwayStore.open(dsn, NO_SECRETS, name=name)
    try:
        context = FeatureContext(settings, store, CLOCK, Redactor())
        async with open_sign_ins(context, patience=SignInPatience(wait_s=60, lock_s=60)) as authorize:
            yield store, authorize, settings.model_targets()[0]
    finally:
        await store.close()


def key_of(authorized: Target | Failure) -> str:
    assert isinstance(authorized, Target), authorized
    return authorized.api_key


async def test_two_servers_that_renew_at_once_ask_the_issuer_once(tmp_path: Path, postgres_dsn: str) -> None:
    """P6, P11: the tokens are in the database, encrypted; the log names no token."""
    async with (
        FakeIssuer(life_s=3600) as issuer,
        node(tmp_path, postgres_dsn, "a", issuer) as (first, one, target),
        node(tmp_path, postgres_dsn, "b", issuer) as (second, other, _),
    ):
        session = issuer.sign_in()
        missing = await one(target, "")
        assert isinstance(missing, Failure)
        assert "you aren't signed in; run `holdfast auth login codex`" in missing.text
        # As `holdfast auth login` does with a database.
        vault = vault_in(tmp_path / "a")
        async with vault.exclusive():
            await vault.stage(tokens_of(issuer, CLOCK, left_s=-1))
        both = await asyncio.gather(one(target, ""), other(target, ""))
        if any(
            isinstance(each, Failure) for each in both
        ):  # the other asked before the first had stored them
            both = [both[0], await other(target, "")]
        assert [key_of(each) for each in both] == [session.access[1]] * 2
        assert len(issuer.asked(RENEW)) == 1
        both = await asyncio.gather(*(each(target, session.access[1]) for each in (one, other)))
        assert [key_of(each) for each in both] == [session.access[2]] * 2
        assert len(issuer.asked(RENEW)) == 2
        raw = await second.note("sign-in/codex")
        assert raw is not None
        assert not [token for token in (*session.access, *session.spent) if token.encode() in raw]
        assert isinstance(first, AwayStore)
        first.away = 1
        assert key_of(await one(target, session.access[2])) == session.access[3], "it is used at once"
        assert key_of(await other(target, session.access[2])) == session.access[3], "and stored soon"
        assert not session.is_revoked
        records = await second.read("crd_codex")
        refreshed = [record.event for record in records if isinstance(record.event, CredentialRefreshed)]
        assert [event.rejected for event in refreshed][:2] == [False, True]
        files = [path.name for path in (tmp_path / "a" / FOLDER).iterdir()]
        assert files == ["codex.lock"], "no token stays on this computer"
