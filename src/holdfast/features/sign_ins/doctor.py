"""The doctor's checks of sign-ins: each target with one makes one tiny call."""

import asyncio
from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, fault, note
from holdfast.cli.doctor.targets import ask_targets
from holdfast.features.sign_ins.sign_ins import login_advice, open_sign_ins, vault_of
from holdfast.interfaces.feature import DoctorContext, FeatureContext
from holdfast.journal.memory import MemoryStore
from holdfast.redaction import Redactor


async def check_sign_ins(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check each target that uses a sign-in."""
    settings = context.settings
    targets = [target for target in settings.model_targets() if target.auth]
    if not targets:
        return []
    if settings.server.store:
        # The tokens are in the database, where only a server reads them.
        return [
            note(f"target {one.name}", "not checked", "try it on the page, under Targets") for one in targets
        ]
    signed_out = [
        fault(f"target {one.name}", f"you aren't signed in to {one.auth}", login_advice(one.auth))
        for one in targets
        if await vault_of(settings, one.auth, None).read() is None
    ]
    names = {finding.name for finding in signed_out}
    others = [one for one in targets if f"target {one.name}" not in names]
    if context.is_offline:
        return [
            *signed_out,
            *(note(f"target {one.name}", "not checked", "run doctor without --offline") for one in others),
        ]
    secrets = Redactor()
    store = MemoryStore(secrets)
    try:
        opened = FeatureContext(settings, store, context.clock, secrets=secrets)
        async with open_sign_ins(opened, keeps_log=False) as authorize:
            return [*signed_out, *await ask_targets(others, authorize=authorize)]
    finally:
        await asyncio.shield(store.close())
