"""Delivers updates to a webhook, as Telegram does: one after the other, each until it is taken."""

import asyncio

import aiohttp

from fakes.telegram.world import Webhook, World

AGAIN_S = 0.2
ANSWER_S = 30.0
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  # the name of a header


async def deliver_updates(world: World) -> None:
    """Deliver until cancelled; without a webhook, updates wait to be fetched."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            await world.changed.until(lambda: world.webhook is not None and bool(world.updates))
            hook, update = world.webhook, world.updates[0]
            assert hook is not None
            hook.error = await _deliver(session, hook, update)
            hook.error_s = world.now_s if hook.error else 0
            if hook.error:
                world.changed.notify()
                await asyncio.sleep(AGAIN_S)
            elif world.updates and world.updates[0] is update:
                world.updates.pop(0)
                world.changed.notify()


async def _deliver(session: aiohttp.ClientSession, hook: Webhook, update: object) -> str:
    """Why it was not taken; empty if it was."""
    headers = {SECRET_HEADER: hook.secret} if hook.secret else {}
    try:
        async with session.post(hook.url, json=update, headers=headers) as response:
            if response.ok:
                return ""
            return f"Wrong response from the webhook: {response.status} {response.reason}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"Connection failed: {type(error).__name__}"
