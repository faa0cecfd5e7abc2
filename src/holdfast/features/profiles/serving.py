"""Serves each profile below /p/NAME, as a whole server beside the main one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.server.access.middleware import UNREAD
from holdfast.server.deps import RouteDeps

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.config.load import Loaded
    from holdfast.config.settings import Settings
    from holdfast.host.lock import DirectoryLock
    from holdfast.host.runtime import Runtime

KEEP_S = 2.0  # how often it looks whether the lock of the data directory is still there


class ProfileKeys(dict[str, str]):
    """A key of each profile that is served, by its name."""


async def serve_profiles(deps: RouteDeps, settings: "Settings", runtime: "Runtime") -> None:
    """Serve the profiles that exist now, until the server ends."""
    del runtime
    from holdfast.features.profiles.scope import profile_names

    names = await asyncio.to_thread(profile_names)
    deps.mounts.update(dict.fromkeys(names))
    deps.mounts.pop(UNREAD, None)
    background = deps.agent.background
    tasks = [background.start(f"profile {name}", partial(_serve, name, deps, settings)) for name in names]
    if not tasks:
        return
    try:
        await asyncio.get_running_loop().create_future()  # until it's cancelled
    finally:
        await background.end(*tasks)


async def _serve(name: str, deps: RouteDeps, main: "Settings") -> None:
    """Serve one profile. After a failure, it starts again, and the detailed health shows why."""
    from holdfast.config.files import scoped
    from holdfast.features.profiles.scope import environ_of
    from holdfast.host.assembly import open_application
    from holdfast.host.data_dir import announce
    from holdfast.host.http_server import serving
    from holdfast.host.server_keys import first_key, keys_of

    with scoped(environ_of(name, main.data_dir)):
        loaded = await asyncio.to_thread(_loaded, name, main)
        settings = loaded.settings
        async with _locked(settings.data_dir) as lock:
            keys = keys_of(settings, await asyncio.to_thread(first_key, settings))
            # All servers of a process remove the secrets of all: one may meet those of another.
            secrets = deps.agent.secrets
            opened = open_application(settings, keys=keys, config=loaded.file, secrets=secrets)
            async with opened as app, serving(app) as url:
                await app.until_opened()  # raises if a required sandbox doesn't hold
                await asyncio.to_thread(announce, lock, url, loaded)
                deps.singleton(ProfileKeys)[name] = keys[0].secret if keys else ""
                deps.mounts[name] = app.asgi
                keeping = asyncio.create_task(_keep(lock))
                try:
                    await deps.streams.until_end()  # then readers of its streams reconnect, too
                    app.streams.end()
                    await keeping
                finally:
                    deps.mounts[name] = None
                    keeping.cancel()
                    await asyncio.wait([keeping])


def _loaded(name: str, main: "Settings") -> "Loaded":
    """Read the profile's configuration; what concerns the address is the main one's. Blocks."""
    from holdfast.config.load import load_or_probe, read_environment
    from holdfast.config.sources import BadConfiguration

    loaded = load_or_probe(read_environment({}))
    server = loaded.settings.server
    if problem := _shared_bot(name, loaded.settings, main):
        raise BadConfiguration([problem])
    if server.store and server.store == main.server.store:
        raise BadConfiguration([f"profile {name}: server.store must be its own database"])
    if server.api_keys == ():
        raise BadConfiguration([f"profile {name}: it must have an API key"])
    address = {key: getattr(main.server, key) for key in ("host", "hosts", "public_url", "cors_origins")}
    if address["public_url"]:
        address["public_url"] = f"{address['public_url'].rstrip('/')}/p/{name}"
    server = replace(
        server,
        **address,
        mount_path=f"{main.server.mount_path}/p/{name}",
        model_name=server.model_name or name,
    )
    return replace(loaded, settings=replace(loaded.settings, server=server))


def _shared_bot(name: str, own: "Settings", main: "Settings") -> str:
    """Return why the profile can't start: another one has the same bot. Empty if it can. Blocks.

    Of two, the one with the earlier name starts, so that it's always the same.
    """
    from holdfast.config.files import scoped
    from holdfast.config.load import load, read_environment
    from holdfast.config.sources import BadConfiguration
    from holdfast.features.profiles.scope import environ_of, profile_names

    bots = {one.bot: one for one in own.channels}
    others = {"the main configuration": main} if bots else {}
    for other in profile_names() if bots else ():
        if other < name:
            with scoped(environ_of(other, main.data_dir)), suppress(BadConfiguration):
                others[f"the profile {other}"] = load(read_environment({})).settings
    for whose, settings in others.items():
        for channel in settings.channels:
            if same := bots.get(channel.bot):
                mine = f"the channel {same.name} of the profile {name}"
                return (
                    f"{mine} and the channel {channel.name} of {whose} have the same bot; make a bot for each"
                )
    return ""


async def _keep(lock: "DirectoryLock") -> None:
    while True:
        await asyncio.sleep(KEEP_S)
        await asyncio.to_thread(lock.keep)


@asynccontextmanager
async def _locked(folder: "Path") -> AsyncGenerator["DirectoryLock"]:
    from holdfast.host.lock import DirectoryLock

    lock = DirectoryLock(folder)
    await asyncio.to_thread(lock.__enter__)
    try:
        yield lock
    finally:
        await asyncio.to_thread(lock.__exit__, None, None, None)
