"""The data directory of a command, and the server that is running on it, if any."""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.client.address import Address
from holdfast.config.environment import variables
from holdfast.config.load import ConfigInputs, Loaded, load, load_or_probe, read_environment
from holdfast.config.settings import Settings
from holdfast.config.sources import dotted
from holdfast.host.lock import DirectoryLock, LockHolder, read_holder
from holdfast.host.used_settings import changed_settings, save_used_settings

_log = logging.getLogger(__name__)


class DataDirectory(Struct, frozen=True):
    """A data directory with its settings; local model servers are looked for only when needed."""

    inputs: ConfigInputs
    loaded: Loaded

    @property
    def settings(self) -> Settings:
        """The settings, without model servers on this machine."""
        return self.loaded.settings

    @property
    def data_dir(self) -> Path:
        """Where everything is kept."""
        return self.settings.data_dir

    def completed(self) -> Loaded:
        """The complete configuration for a server. Call it before the event loop starts."""
        return load_or_probe(self.inputs)

    def ignored_variables(self) -> list[str]:
        """Variables of this command that the running server doesn't use."""
        changed = changed_settings(self.loaded)
        return [
            name
            for name, (path, _) in variables().items()
            if name in self.inputs.environ and dotted(path) in changed
        ]

    def address(self) -> Address | None:
        """The address of the running server, if any.

        A killed server may have left a port that another program uses now, which must not get the key.
        """
        from holdfast.host.server_keys import key_for_clients

        holder = running_server(self.data_dir)
        if holder is None:
            return None
        key = key_for_clients(self.settings)
        return Address(holder.url, key, socket=holder.socket, certificate=holder.certificate)

    async def where(self) -> Address:
        """The same for a client that retries until its patience ends."""
        found = await asyncio.to_thread(self.address)
        if found is None:
            raise ConnectionError(f"no server is running on {self.data_dir}")
        return found


def announce(
    lock: DirectoryLock, url: str, loaded: Loaded, *, socket: str = "", certificate: str = ""
) -> None:
    """Let other commands find the server and compare their settings with its own."""
    lock.announce(url, config=loaded.file, socket=socket, certificate=certificate)
    try:
        save_used_settings(loaded)
    except OSError as error:
        _log.warning("other commands can't compare their settings with this server's: %s", error.strerror)


def running_server(data_dir: Path) -> LockHolder | None:
    """The running server of the directory, if any."""
    holder = read_holder(data_dir)
    return holder if holder is not None and _is_alive(holder.pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def find_data_directory(flags: Mapping[str, object]) -> DataDirectory:
    """The data directory that flags, environment and file name. Raises BadConfiguration."""
    inputs = read_environment(flags)
    return DataDirectory(inputs, load(inputs))
