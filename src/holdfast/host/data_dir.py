"""The place where a command works: its data directory, and the server that holds it, if any."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.client.address import Address
from holdfast.config.load import ConfigInputs, Loaded, load, load_or_probe, read_environment
from holdfast.config.settings import Settings
from holdfast.host.lock import LockHolder, read_holder


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Settings as far as files and the environment say them; model servers are looked for when needed."""

    inputs: ConfigInputs
    settings: Settings

    @property
    def data_dir(self) -> Path:
        """Where everything is kept."""
        return self.settings.data_dir

    def completed(self) -> Loaded:
        """The whole configuration, for one who serves; before there is an event loop."""
        return load_or_probe(self.inputs)

    def address(self) -> Address | None:
        """The server that works on the directory, if one does.

        The note of one that was killed may name a port that is somebody else's now: the key is not for them.
        """
        from holdfast.host.server_keys import key_for_clients

        holder = running_server(self.data_dir)
        if holder is None:
            return None
        return Address(holder.url, key_for_clients(self.settings))

    async def where(self) -> Address:
        """The same for a client, which asks again as long as its patience lasts."""
        found = await asyncio.to_thread(self.address)
        if found is None:
            raise ConnectionError(f"no server works on {self.data_dir} now")
        return found


def running_server(data_dir: Path) -> LockHolder | None:
    """Who works on the directory, as far as a living process announced itself."""
    holder = read_holder(data_dir)
    return holder if holder is not None and _lives(holder.pid) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def find_data_directory(flags: Mapping[str, object]) -> DataDirectory:
    """The place that flags, environment and file name; raises BadConfiguration."""
    inputs = read_environment(flags)
    return DataDirectory(inputs, load(inputs).settings)
