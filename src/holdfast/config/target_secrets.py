"""What of a target must not get out: its keys, the headers that hold one, the password of its proxy."""

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from holdfast.decisions.deadlines import is_local
from holdfast.decisions.proxies import proxy_secrets
from holdfast.targets import Target

KEY_CHARS_MIN = 16  # shorter than this, a key can be guessed, or is a word
# KEYBOARD, MAX_TOKENS, TOKENIZER, COMPASS, PASSENGER and AUTHOR hold none.
_SECRET_NAME = re.compile(
    r"KEY(?!BOARD|WORD|STROKE|MAP)|TOKEN(?!S|I[SZ]|[_-](?:LIMIT|MAX|COUNT))|(?<!MAX)(?<!MAX[_-])TOKENS"
    r"|SECRET|PASSW|(?<!COM)PASS(?!ENGER|IVE|AGE)|PWD|AUTH(?!OR(?!I[SZ]))|COOKIE|CREDENTIAL|DSN|JWT",
    re.IGNORECASE,
)
# PASSWORD_FILE says where a secret is, AUTH_METHOD of which kind it is, X-Portkey-Provider whose.
_ABOUT_SECRET = re.compile(r"[_-](?:FILE|PATH|DIR|SOCK|NAME|ALIAS|TYPE|MODE|METHOD|PROVIDER)$", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)


def names_secret(variable: str) -> bool:
    """Whether a variable of this name holds a secret, as far as names tell."""
    return _SECRET_NAME.search(variable) is not None and _ABOUT_SECRET.search(variable) is None


def without_scheme(text: str) -> str:
    """What an Authorization header says behind Bearer or the like, which may be repeated alone."""
    match = _SCHEME.match(text)
    return text[match.end() :] if match else text


def secrets_of(targets: Iterable[Target]) -> Iterator[str]:
    """Keys, headers that hold one, proxies' passwords."""
    for target in targets:
        yield from secrets_in(target.api_key, target.headers, base_url=target.base_url)
        yield from proxy_secrets(target.proxy)


def secrets_in(key: str, headers: Mapping[str, str], *, base_url: str) -> Iterator[str]:
    """A key, and the headers that hold one by their names; also what a server may repeat of them alone.

    A server of one's own that asks for some key, whichever, is given a word (`ollama`).
    """
    takes_words = is_local(urlsplit(base_url).hostname or "")
    for given in (key, *(value.strip() for name, value in headers.items() if names_secret(name))):
        bare = without_scheme(given)
        if given and not (takes_words and _is_word(bare)):
            last = (word for word in given.split()[-1:] if len(word) >= KEY_CHARS_MIN)
            yield from dict.fromkeys((given, bare, *last))


def _is_word(text: str) -> bool:
    return len(text) < KEY_CHARS_MIN and not any(map(str.isdigit, text))
