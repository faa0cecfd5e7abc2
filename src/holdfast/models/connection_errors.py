"""Classifies the HTTP client's exceptions: how a connection failed, and what is known about it."""

import errno
import ssl

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError

from holdfast.decisions.failure_rules import Break
from holdfast.decisions.proxies import Proxy

PROXY_WANTS_LOGIN = 407
PROXY_IS_BUSY = frozenset({408, 425, 429})
FIRST_SERVER_ERROR = 500


class ConnectionBroken(Exception):
    """The connection failed; `said` is the reason that the system or a proxy gave.

    `at_proxy` means that the proxy failed, or the connection to it.
    """

    def __init__(self, how: Break, said: str = "", *, at_proxy: bool = False) -> None:
        super().__init__(how, said)
        self.how: Break = how
        self.said = said
        self.at_proxy = at_proxy


def connection_broken(
    error: aiohttp.ClientError | OSError, proxy: Proxy | None, *, connected: bool
) -> ConnectionBroken:
    """The ConnectionBroken for an exception of the client."""
    at_proxy = proxy is not None and _is_of(proxy, error, connected=connected)
    return ConnectionBroken(_how(error), _said(error), at_proxy=at_proxy)


def _is_of(proxy: Proxy, error: Exception, *, connected: bool) -> bool:
    match error:
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return True
        case aiohttp.ClientConnectorError():
            return (error.host, error.port) == (proxy.host, proxy.port)
        case _:
            return not connected


def _how(error: aiohttp.ClientError | OSError) -> Break:
    match error:
        case aiohttp.ClientHttpProxyError():
            return _refused_by_proxy(error.status)
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientConnectorCertificateError():
            return "tls_untrusted"
        case aiohttp.ClientSSLError():
            return "tls_other"
        case aiohttp.ClientConnectorError():
            return "refused" if error.os_error.errno == errno.ECONNREFUSED else "unreachable"
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return "protocol"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "reset" if isinstance(error.__cause__, ConnectionError) else "eof"
        case OSError():
            return "reset"
        case _:
            return "protocol"


def _refused_by_proxy(status: int) -> Break:
    if status == PROXY_WANTS_LOGIN:
        return "proxy_login"
    passing = status in PROXY_IS_BUSY or status >= FIRST_SERVER_ERROR
    return "proxy_failed" if passing else "proxy_denied"


def _said(error: aiohttp.ClientError | OSError) -> str:
    """Details that `how` leaves out: what is wrong with a certificate, handshake, route or header."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"{error.status} {error.message}{_logins(error)}"
        case aiohttp.ClientConnectorDNSError():
            return ""
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as why):
            return why.verify_message
        case aiohttp.ClientConnectorError(os_error=ssl.SSLError() as why):
            return (why.reason or "").replace("_", " ").lower()
        case aiohttp.ClientConnectorError(os_error=why):
            return "" if why.errno == errno.ECONNREFUSED else why.strerror or ""
        case aiohttp.ClientResponseError():
            return error.message.partition(". Please install")[0]
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError() as why):
            return why.message
        case _:
            return ""


def _logins(error: aiohttp.ClientHttpProxyError) -> str:
    """The login methods of a proxy, if Basic isn't among them."""
    offered = error.headers.getall("proxy-authenticate", []) if error.headers else []
    names = [offer.split()[0].rstrip(",") for offer in offered if offer.split()]
    if not names or any(name.lower() == "basic" for name in names):
        return ""
    return f", it accepts only {' or '.join(names)}, and Holdfast supports only Basic"
