"""Places that results and messages are sent to: CHANNEL:CHAT, CHANNEL for its home chat, or a URL."""

from collections.abc import Mapping, Sequence

from yarl import URL

from holdfast import events as e
from holdfast.features.channels.deps import ConfiguredChannel
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.interfaces.ids import WEBHOOKS_LOG, channel_log_id, channel_name, delivery_place, new_epoch
from holdfast.interfaces.journal import IfSessionNew, Reading
from holdfast.server.deps import RouteDeps
from holdfast.server.image_fetcher import HttpsOnly
from holdfast.server.problems import Problem, bad_request
from holdfast.tools.web.addresses import UrlRefused
from holdfast.values import CHANNEL

PLACES_MAX = 20
WEBHOOKS = "webhooks"


def configured_in(deps: RouteDeps) -> Mapping[str, ConfiguredChannel]:
    """Return the channels of the settings, by name."""
    return deps.options.features.get("channels", {})


def named_place(place: str, configured: Mapping[str, ConfiguredChannel]) -> str:
    """Return the place with its channel's name, if it names the only channel of a platform by its kind."""
    name, colon, chat = place.partition(":")
    if name in configured or place.startswith("https://"):
        return place
    names = [one for one, channel in configured.items() if channel.kind == name]
    return f"{names[0]}{colon}{chat}" if len(names) == 1 else place


async def resolved_place(journal: Reading, folds: ChannelFolds, place: str) -> tuple[str, str]:
    """Return the channel's log and the chat; an empty chat if it's the channel's home, and it has none."""
    log_id, chat = delivery_place(place)
    return log_id, chat or (await folds.state(journal, log_id)).home


async def known_log(deps: RouteDeps, name: str) -> str:
    """The log of the channel with this name; raises a Problem."""
    log_id = channel_log_id(name)
    if await deps.store.session(log_id) is None:
        raise Problem(
            404,
            "No channel has this name. `holdfast channels list` shows all channels",
            code="channel_not_found",
            param="name",
        )
    return log_id


async def checked_places(deps: RouteDeps, places: Sequence[str]) -> tuple[str, ...]:
    """Validate delivery targets: chats as CHANNEL:CHAT, and https URLs; raises a Problem.

    Only known chats are allowed, so that no one can message strangers.
    """
    if len(places) > PLACES_MAX:
        raise bad_request(f"'deliver' can name up to {PLACES_MAX} chats", param="deliver")
    places = [named_place(place, configured_in(deps)) for place in places]
    for place in places:
        log_id, chat = delivery_place(place)
        if log_id == WEBHOOKS_LOG:
            await _check_webhook(deps, chat)
            continue
        if await deps.store.session(log_id) is None:
            known = ", ".join(sorted(configured_in(deps))) or "none"
            name = place.partition(":")[0][:80]
            text = f"'deliver' has the unknown channel {name!r}. Available channels: {known}"
            raise bad_request(text, param="deliver")
        await checked_chat(deps, log_id, chat)
    return tuple(dict.fromkeys(places))


async def checked_chat(deps: RouteDeps, log_id: str, chat: str) -> str:
    """Return the chat, or the home chat for none; raises a Problem for an unknown one."""
    state, name = await deps.singleton(ChannelFolds).state(deps.store, log_id), channel_name(log_id)
    if not chat and not state.home:
        raise bad_request(
            f"The channel {name!r} has no home chat. Send /home in a chat, or set `home` in the settings",
            param="chat",
            code="no_home_chat",
        )
    if chat and chat not in state.sessions and chat not in state.users and chat != state.home:
        raise bad_request(
            f"The channel {name!r} doesn't know the chat {chat[:80]!r}. Use CHANNEL:CHAT, such as tg:123; "
            "`holdfast channels log` shows the chats",
            param="chat",
            code="unknown_chat",
        )
    return chat or state.home


async def _check_webhook(deps: RouteDeps, address: str) -> None:
    """Raise a Problem for an address that results can't be posted to; else there is an outbox for them."""
    try:
        HttpsOnly().insist_on_url(URL(address))
    except (UrlRefused, ValueError) as error:
        raise bad_request(f"'deliver' has an invalid URL: {error}", param="deliver") from error
    now_ms = deps.clock.now_ms()
    created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=CHANNEL, title=WEBHOOKS)
    await deps.store.append(WEBHOOKS_LOG, [created], when=[IfSessionNew()])
