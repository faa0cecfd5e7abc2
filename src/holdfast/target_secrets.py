"""What of a target must not get out: its keys, the headers that hold one, the password of its proxy."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from holdfast.deadlines import is_local
from holdfast.proxies import proxy_secrets
from holdfast.targets import Target

KEY_CHARS_MIN = 16  # shorter than this, a key can be guessed, or is a word
# KEYBOARD, MAX_TOKENS, TOKENIZER, COMPASS, PASSENGER and AUTHOR hold none.
_SECRET_NAME = re.compile(
    r"KEY(?!BOARD|WORD|STROKE|MAP)|TOKEN(?!S|I[SZ]|[_-](?:LIMIT|MAX|COUNT))|(?<!MAX)(?<!MAX[_-])TOKENS"
    r"|SECRET|PASSW|(?<!COM)PASS(?!ENGER|IVE|AGE)|PWD|AUTH(?!OR(?!I[SZ]))|COOKIE|CREDENTIAL|DSN",
    re.IGNORECASE,
)
# PASSWORD_FILE says where a secret is, AUTH_METHOD of which kind it is.
_ABOUT_SECRET = re.compile(r"[_-](?:FILE|PATH|DIR|SOCK|NAME|TYPE|MODE|METHOD)$", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)


def names_secret(variable: str) -> bool:
    """Whether a variable of this name holds a secret, as far as names tell."""
    return _SECRET_NAME.search(variable) is not None and _ABOUT_SECRET.search(variable) is None


def is_dummy_key(key: str, base_url: str) -> bool:
    """Whether it is a word for a server of one's own that asks for some key, whichever (`ollama`)."""
    return len(key) < KEY_CHARS_MIN and is_local(urlsplit(base_url).hostname or "")


def without_scheme(text: str) -> str:
    """What an Authorization header says behind Bearer or the like, which may be repeated alone."""
    match = _SCHEME.match(text)
    return text[match.end() :] if match else text


def secrets_of(targets: Iterable[Target]) -> Iterator[str]:
    """Keys, headers that hold one by their names (also without the scheme), proxies' passwords."""
    for target in targets:
        named = (value.strip() for name, value in target.headers.items() if names_secret(name))
        for given in filter(None, (target.api_key, *named)):
            key = without_scheme(given)
            if not is_dummy_key(key, target.base_url):
                yield from dict.fromkeys((given, key))
        yield from proxy_secrets(target.proxy)
