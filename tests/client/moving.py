"""A server that goes away and comes back elsewhere, as its clients meet it."""

from dataclasses import dataclass

from holdfast.client import Address, ClientPatience

PATIENT_CLIENT = ClientPatience(first_s=0.01, most_s=0.02, call_s=0.2, follow_s=60)


@dataclass
class Moving:
    """Where the server is now."""

    url: str = "http://127.0.0.1:9"

    async def where(self) -> Address:
        return Address(self.url)
