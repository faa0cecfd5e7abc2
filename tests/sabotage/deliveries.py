"""Wrong parts of what takes the calls of chat platforms: whom they believe, and when they answer."""

from typing import Any

from typing_extensions import override

from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.keys import AddedKeys
from holdfast.server.options import ApiKey
from holdfast.server.peers.admission import PeerAdmission
from holdfast.server.peers.seals import HEADER, Question, Seals
from holdfast.server.problems import Problem
from sabotage import Sabotage


class AdmitsWithoutAKey(PeerAdmission):
    """Takes a seal without a key for one that may do anything."""

    @override
    def _is_known(self, path: str, key: str) -> bool:
        return not key or super()._is_known(path, key)


async def check_a_seal_without_a_key_opens_nothing_but_deliveries(kind: type[PeerAdmission]) -> None:
    """Whoever calls a hook has no key, and another server's seal gives them none."""
    clock = SystemClock()
    here, there = Seals(clock, "a"), Seals(clock, "b")
    here.key = there.key = b"of the cluster"
    keys = KeyRing((ApiKey("team", "s3cret-of-the-team"),), AddedKeys(MemoryStore(), clock))
    admission = kind(here, keys)

    def admit(path: str) -> str:
        seal = there.sealed(Question("a", "POST", path), key_name="")
        headers = [(HEADER, seal.encode())]
        scope: dict[str, Any] = {"method": "POST", "path": path, "query_string": b"", "headers": headers}
        opened = admission.seal_of(scope)
        assert opened is not None
        return admission.admit(scope, opened)

    assert admit("/hooks/channels/tg") == ""
    for path in ("/v1/runs", "/hooks/trg_1", "/api/sessions/s/live"):
        opened = ""
        try:
            opened = admit(path) or path
        except Problem as problem:
            assert problem.code == "peer_key_unknown"  # noqa: PT017  # it is refused for this, and no other reason
        assert not opened


SABOTAGES = (
    Sabotage(
        "P11", check_a_seal_without_a_key_opens_nothing_but_deliveries, PeerAdmission, AdmitsWithoutAKey
    ),
)
