"""The identity and the personalities of hermes-agent, as files for Holdfast."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from holdfast.features.hermes_import.home_files import read_home_text
from holdfast.features.hermes_import.messages import table_of

IDENTITY = "soul.md"
AGENTS = "agents"
_OTHERS = re.compile(r"[^a-z0-9]+")


def identity_of(home: Path) -> str:
    """Return the text of SOUL.md, or empty. Raises OSError or ValueError."""
    try:
        return read_home_text(home, home / "SOUL.md").strip()
    except FileNotFoundError:
        return ""


def personalities_in(config: Mapping[str, object]) -> dict[str, str]:
    """Return the personalities as files of named agents, by their names here."""
    given = table_of(config.get("agent")).get("personalities") or config.get("personalities")
    found: dict[str, str] = {}
    for key, value in cast("dict[object, object]", given).items() if isinstance(given, dict) else ():
        name = _OTHERS.sub("-", str(key).lower()).strip("-")[:64].strip("-")
        text, about = _said(value)
        if name and text:
            description = json.dumps(about or f"The personality {key}.")
            found[name] = f"---\ndescription: {description}\n---\n\n{text}\n"
    return found


def _said(value: object) -> tuple[str, str]:
    """Return the instructions and the description of a personality."""
    if isinstance(value, str):
        return value.strip(), ""
    if not isinstance(value, dict):
        return "", ""
    fields = {str(key): str(one).strip() for key, one in cast("dict[object, object]", value).items()}
    lines = [fields.get("system_prompt", "")]
    lines += [f"{key.capitalize()}: {fields[key]}" for key in ("tone", "style") if fields.get(key)]
    return "\n\n".join(filter(None, lines)), " ".join(fields.get("description", "").split())[:1_000]
