"""The secrets that a configuration contains: of targets, MCP servers and the server itself."""

from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, urlsplit

from holdfast.config.secret_values import command_parts
from holdfast.config.settings import McpServerSettings, Settings
from holdfast.config.target_secrets import is_secret_header, names_secret, secrets_of, without_scheme
from holdfast.config.value_formats import database_secrets


def known_secrets(settings: Settings) -> Iterator[str]:
    """Every secret in the configuration; the key that the first start makes is in a file instead."""
    yield from secrets_of(settings.model_targets())
    yield from mcp_secrets_of(settings.mcp_servers)
    yield from (str(key) for key in settings.server.api_keys or ())
    yield from filter(None, [str(settings.web_search.api_key)])
    for channel in settings.channels:
        tokens = (channel.token, channel.app_token, channel.signing_secret)
        yield from (str(token) for token in tokens if token)
    yield from database_secrets(settings.server.store)
    yield from database_secrets(settings.server.store_direct)
    yield from filter(None, [str(settings.server.blob_store.secret_access_key)])


def mcp_secrets_of(servers: Iterable[McpServerSettings]) -> Iterator[str]:
    """The keys that MCP servers are given; a server may repeat one in an error."""
    for server in servers:
        named = [*server.env.items(), *parse_qsl(urlsplit(server.url).query)]
        given = [str(value) for name, value in named if names_secret(name)]
        headers = [(name, str(value).strip()) for name, value in server.headers.items()]
        given += [value for name, value in headers if is_secret_header(name, value)]
        given += [secret for _, secret in command_parts(server.command)]
        given.append(str(server.oauth.client_secret))
        for text in filter(None, map(str.strip, given)):
            yield text
            yield without_scheme(text)
