"""Ids as people type them: whole, by their beginning, or `last` for the newest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.reader import Reader
from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from holdfast.client import Client

LAST = "last"
RUN, RUN_CHARS = "run_", 36
SESSION, SESSION_CHARS = "ses_", 28
BEGINNING_CHARS_MIN, SHOWN_CHARS_MIN = 4, 8
LOOKED_AT = 200  # an older one is named by its whole id


class AmbiguousName(ClientError):
    """Nothing, or more than one thing, has such a name."""


async def resolve_run(reader: Reader, word: str) -> str:
    """The id of the run that is meant; a word that means none is left as it is."""
    if word != LAST and not _is_beginning(word, RUN, RUN_CHARS):
        return word
    page = await reader.runs(limit=LOOKED_AT)
    return _meant(word, [run.run_id for run in page.data], kind="run")


async def resolve_session(reader: Reader, word: str) -> str:
    """The id of the session that is meant; a word that means none is left as it is."""
    if word != LAST and not _is_beginning(word, SESSION, SESSION_CHARS):
        return word
    page = await reader.sessions(limit=LOOKED_AT)
    newest_first = sorted(page.data, key=lambda one: one.updated_at, reverse=True)  # pinned ones come before
    return _meant(word, [one.session_id for one in newest_first], kind="session")


async def check_model(client: "Client", name: str) -> None:
    """Raise AmbiguousName unless a target has this name or model; a run would silently use the default."""
    if name:
        targets = await client.targets()
        if name not in {word for target in targets for word in (target.name, target.model)}:
            known = ", ".join(target.name for target in targets)
            raise AmbiguousName(f"no target has the name or model {name}; the targets are {known}")


def resolve_id(word: str, ids: Sequence[str], *, kind: str, chars_min: int = BEGINNING_CHARS_MIN) -> str:
    """The only id that begins with the word, of at least `chars_min` characters; raises AmbiguousName."""
    if word in ids:
        return word
    fits = [one for one in ids if len(word) >= chars_min and one.startswith(word)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise AmbiguousName(f"{word} matches {len(fits)} {kind}s; type more of the id")
    raise AmbiguousName(f"no {kind} has the id {word}")


def short_id(whole: str, ids: Sequence[str]) -> str:
    """The shortest beginning of an id, of at least eight characters, that fits no other."""
    others = [one for one in ids if one != whole]
    for chars in range(SHOWN_CHARS_MIN, len(whole)):
        if not any(one.startswith(whole[:chars]) for one in others):
            return whole[:chars]
    return whole


def _is_beginning(word: str, prefix: str, chars: int) -> bool:
    return word.startswith(prefix) and len(prefix) < len(word) < chars


def _meant(word: str, ids: Sequence[str], *, kind: str) -> str:
    if word == LAST:
        if not ids:
            raise AmbiguousName(f"there is no {kind} yet")
        return ids[0]
    meant = [one for one in ids if one.startswith(word)]
    if word in meant or not meant:
        return word
    if len(meant) > 1:
        raise AmbiguousName(f"{word} matches {len(meant)} {kind}s; type more of the id")
    return meant[0]
