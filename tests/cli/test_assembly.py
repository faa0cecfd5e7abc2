"""Putting a server together: what is set reaches those whom it is for."""

from holdfast.cli.assembly import call_means
from holdfast.journal.memory import MemoryStore
from holdfast.models.http import ModelHttp
from holdfast.models.prices import Prices
from holdfast.models.shared import Shared
from holdfast.settings import ApprovalSettings, Settings


async def test_where_nobody_is_there_to_ask_model_calls_may_try_for_longer() -> None:
    """P3: ten minutes after the last progress, or thirty."""
    store = MemoryStore()
    shared = Shared(store, lambda: 0)
    for mode in ("ask", "unattended"):
        settings = Settings(approvals=ApprovalSettings(mode=mode))
        means = call_means(settings, ModelHttp(), shared=shared, store=store, prices=Prices())
        assert means.unattended is (mode == "unattended")
    await store.close()
