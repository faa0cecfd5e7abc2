"""Posts results to other programs: a carrier of the same outbox, with the web tool's address rules.

Each request carries the delivery's key as `Idempotency-Key`, so that receivers can deduplicate. Possible
repeats also have `Holdfast-Repeat`. Redirects aren't followed.
"""

import asyncio
from collections.abc import Callable

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from holdfast import events as e
from holdfast.decisions.deliveries import (
    Arrived,
    CannotTell,
    DidNotArrive,
    MayHaveArrived,
    NotAccepted,
    ProbeResult,
    SendResult,
)
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deliveries import ANSWER, ENDING, PlatformFormat, message_key
from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.messages import failure_text, request_mark, tracing
from holdfast.features.channels.outbox import OutboxSender
from holdfast.features.channels.session_watcher import SessionWatcher
from holdfast.features.channels.texts import ending_text
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.journal import Fence
from holdfast.runner.supervisor import Supervisor
from holdfast.tools.web.addresses import AddressPolicy, CheckedResolver, UrlRefused

CONNECT_S = 10.0
ANSWER_S = 30.0
TEXT_CHARS_MAX = 1_000_000
GONE = "its session no longer exists"


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body posted when a run has ended."""

    type: str = "run.ended"
    run_id: str
    session_id: str
    outcome: str
    output: str
    message: str = ""  # the error and the fix, for people


class WebhookCarrier:
    """Posts to URLs that the policy allows, with a new connection for each request."""

    def __init__(
        self,
        supervisor: Supervisor,
        policy: AddressPolicy,
        *,
        resolver: Callable[[], AbstractResolver] = aiohttp.AsyncResolver,
    ) -> None:
        self._supervisor = supervisor
        self._policy = policy
        self._resolver = resolver

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Post it."""
        intended = delivery.intended
        if message_key(intended) == ENDING:
            return Arrived("")  # the answer's body includes the ending
        if message_key(intended) != ANSWER:
            return NotAccepted("webhooks get results, and no questions")
        body = await self._body(intended)
        if body is None:
            return NotAccepted(GONE)
        headers = {"Content-Type": "application/json", "Idempotency-Key": delivery.key}
        headers |= {"Holdfast-Repeat": "true"} if is_marked else {}
        return await self._post(intended.chat, body, headers)

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Receivers deduplicate by key, so there is nothing to check."""
        del delivery
        return CannotTell()

    async def _body(self, intended: e.DeliveryIntended) -> bytes | None:
        view = await self._supervisor.view(intended.session_id)
        run = view.runs.get(intended.run)
        if run is None:
            return None
        return msgspec.json.encode(
            WebhookBody(
                run_id=intended.run,
                session_id=intended.session_id,
                outcome=run.state.outcome or "",
                output=run.output[:TEXT_CHARS_MAX],
                message=ending_text(run.state),
            )
        )

    async def _post(self, address: str, body: bytes, headers: dict[str, str]) -> SendResult:
        mark, resolver = request_mark(), CheckedResolver(self._resolver(), self._policy)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        # No proxies from the environment: a proxy could connect to an unchecked address.
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trace_configs=[tracing()],
        )
        try:
            url = URL(address)
            self._policy.insist_on_url(url)
            async with session, asyncio.timeout(CONNECT_S + ANSWER_S):
                request = session.post(
                    url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=mark
                )
                async with request as response:
                    return _result(response.status, response.headers.get("Retry-After", ""))
        except UrlRefused as error:
            return NotAccepted(str(error))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            why = "no response in time" if isinstance(error, TimeoutError) else failure_text(error)
            return MayHaveArrived(why) if mark.is_written else DidNotArrive(why)
        finally:
            await session.close()
            await resolver.close()


def _result(status: int, retry_after: str) -> SendResult:
    match status:
        case _ if 200 <= status < 300:  # noqa: PLR2004  # HTTP success
            return Arrived("")
        case 429 | 503:
            wait_s = float(retry_after) if retry_after.isdecimal() else None
            return DidNotArrive(f"HTTP {status}", wait_s)
        case _ if status >= 500:  # noqa: PLR2004  # it may have been accepted before that
            return MayHaveArrived(f"HTTP {status}")
        case _:
            return NotAccepted(f"HTTP {status}")


async def run_webhooks(deps: ChannelDeps, log_id: str, fence: Fence) -> None:
    """Own the outbox of webhooks until cancelled."""
    log = ChannelLog(deps.store, log_id, fence)
    await log.catch_up()
    carrier = WebhookCarrier(deps.supervisor, deps.webhook_policy, resolver=deps.resolver)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(log.follow(), name=f"follow {log_id}")
        tasks.create_task(OutboxSender(log, carrier, store=deps.store, clock=deps.clock).run())
        tasks.create_task(
            SessionWatcher(
                deps, log, text_format=PlatformFormat(count=lambda _: 1, fits=lambda _: True)
            ).run()
        )
