"""The secrets of a target: its key, headers that contain one, the password of its proxy."""

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
# Headers that say who asks, for what or in which format. Any other may carry a key, whatever it is called.
_OPEN_HEADERS = re.compile(
    r"accept.*|content-.*|user-agent|(?:http-)?referer|origin|x-title|x-request-id|x-stainless-.*"
    r"|(?:anthropic|openai)-(?:beta|version)|.*-(?:version|region|title|url)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)


def names_secret(variable: str) -> bool:
    """Whether a variable with this name probably contains a secret."""
    return _SECRET_NAME.search(variable) is not None and _ABOUT_SECRET.search(variable) is None


def is_secret_header(name: str, value: str) -> bool:
    """Whether the header probably contains a secret: by its name, or as a long word under an unknown name."""
    if names_secret(name):
        return True
    is_one_word = len(value) >= KEY_CHARS_MIN and not any(map(str.isspace, value))
    return is_one_word and _OPEN_HEADERS.fullmatch(name) is None


def without_scheme(text: str) -> str:
    """An Authorization header without its scheme; errors may repeat that part alone."""
    match = _SCHEME.match(text)
    return text[match.end() :] if match else text


def secrets_of(targets: Iterable[Target]) -> Iterator[str]:
    """The keys, secret headers and proxy passwords of the targets."""
    for target in targets:
        for key in target.api_keys or (target.api_key,):
            yield from secrets_in(key, target.headers, base_url=target.base_url)
        yield from proxy_secrets(target.proxy)


def secrets_in(key: str, headers: Mapping[str, str], *, base_url: str) -> Iterator[str]:
    """A key and the secret headers, whole and in the parts that a server may repeat.

    For a local server that takes any key, people use a word such as `ollama`, which is no secret.
    """
    takes_words = is_local(urlsplit(base_url).hostname or "")
    for given in (
        key,
        *(value.strip() for name, value in headers.items() if is_secret_header(name, value.strip())),
    ):
        bare = without_scheme(given)
        if given and not (takes_words and _is_word(bare)):
            last = (word for word in given.split()[-1:] if len(word) >= KEY_CHARS_MIN)
            yield from dict.fromkeys((given, bare, *last))


def _is_word(text: str) -> bool:
    return len(text) < KEY_CHARS_MIN and not any(map(str.isdigit, text))
