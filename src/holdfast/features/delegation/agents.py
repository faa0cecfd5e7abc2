"""Named agents: the user's own, and those of a workspace that the user trusts. Each is a Markdown file."""

import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.files import own_config_home
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.interfaces.feature import AgentChoice, ContextPart, ContextReader, ContextRequest, UnusableAgent
from holdfast.values import MODES, NO_TOOLS, ApprovalMode, Budget, RunSettings, strictest

if TYPE_CHECKING:
    from holdfast.interfaces.feature import FeatureContext

OWN_FOLDER, WORKSPACE_FOLDER = "agents", ".holdfast/agents"
TRUSTED_NAME = "trusted-agents.json"
FILES_MAX = 100  # in one folder
FILE_CHARS_MAX = 100_000
NAME_CHARS_MAX, DESCRIPTION_CHARS_MAX = 64, 1_024
WORKSPACES_MAX = 100  # whose agents are kept in memory
_OF_MODELS: Mapping[str, Any] = MappingProxyType(
    {"model": "", "effort": "", "temperature": None, "max_tokens": 0}
)
_LEVEL = re.compile(r"[a-z0-9]{1,16}")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent that is described in advance."""

    name: str = ""
    description: str
    instructions: str = ""
    tools: tuple[str, ...] = ()  # empty: those of the caller
    model: str = ""  # a target; empty is the caller's
    mode: Literal["", ApprovalMode] = ""  # the loosest that it works in
    budget: Budget | None = None
    effort: str = ""
    temperature: float | None = None
    max_tokens: int = 0

    def applied(self, settings: RunSettings) -> RunSettings:
        """Return a run's settings with those of the agent, which only narrow what the run may do."""
        tools = self.tools or settings.tools
        if self.tools and settings.tools:
            tools = tuple([name for name in settings.tools if name in self.tools]) or NO_TOOLS
        budget = self.budget
        if budget is not None and settings.budget is not None:
            budget = settings.budget.within(budget)
        return replace(
            settings,
            agent=self.name,
            model=settings.model or self.model,
            instructions="\n\n".join(filter(None, (self.instructions, settings.instructions))),
            tools=tools,
            mode=strictest(settings.mode or MODES[-1], self.mode) if self.mode else settings.mode,
            budget=budget or settings.budget,
            reasoning_effort=settings.reasoning_effort or self.effort,
            temperature=self.temperature if settings.temperature is None else settings.temperature,
            max_output_tokens=settings.max_output_tokens or self.max_tokens,
        )


class AgentFile(Struct, frozen=True):
    """A file, its agent, and the reason if it can't be used."""

    path: Path
    name: str
    is_own: bool
    agent: NamedAgent | None = None
    problem: str = ""
    note: str = ""  # about a field that has no effect

    @property
    def standing(self) -> str:
        """Where the file is from, and whether it's used."""
        if self.is_own:
            return "yours"
        return "workspace, not trusted" if self.problem else "workspace, trusted"

    def shown(self) -> dict[str, object]:
        """Return the file as JSON has it."""
        agent: dict[str, object] = {} if self.agent is None else msgspec.to_builtins(self.agent)
        known = {"name": self.name, "path": str(self.path), "from": "own" if self.is_own else "workspace"}
        return {**agent, **known, "usable": not self.problem, "problem": self.problem or self.note}


class AgentLibrary:
    """The agents that there are; the user's own win over those of a workspace."""

    def __init__(self, home: Path) -> None:
        self._own = str(home / OWN_FOLDER)
        self._trusted = TrustedFiles(home, TRUSTED_NAME, inside=(WORKSPACE_FOLDER,))
        self._known: dict[Path, Mapping[str, NamedAgent]] = {}  # by workspace, the newest last

    def files(self, workspace: Path | None) -> dict[str, AgentFile]:
        """Return all files by the names of their agents, also those that can't be used. Blocks."""
        found: dict[str, AgentFile] = {}
        folders = [(self._own, True)]
        if workspace is not None:
            folders.append((f"{workspace}/{WORKSPACE_FOLDER}", False))
        for folder, is_own in folders:
            for path in _paths(folder):
                file = self._read(path, is_own=is_own)
                found.setdefault(file.name, file)
        return found

    def usable(self, workspace: Path | None) -> dict[str, NamedAgent]:
        """Return the agents that can be used, by name. Blocks."""
        if not (files := self.files(workspace)):
            return {}
        return {name: one.agent for name, one in files.items() if one.agent is not None and not one.problem}

    def refresh(self, workspace: Path) -> None:
        """Read the agents that `known` returns. Blocks."""
        found = self.usable(workspace)
        self._known.pop(workspace, None)
        if found:
            self._known[workspace] = found
        while len(self._known) > WORKSPACES_MAX:
            del self._known[next(iter(self._known))]

    def known(self, workspace: Path) -> Mapping[str, NamedAgent]:
        """Return the usable agents of the workspace as its newest run found them."""
        return self._known.get(workspace, {})

    def trust(self, path: Path) -> NamedAgent:
        """Trust a file as it is now. Raises BadAgent, TrustUnreadable or OSError. Blocks."""
        text = _text(path)
        agent, _ = parse_agent(text, path.stem, is_own=False)
        self._trusted.trust(path, text)
        return agent

    def _read(self, path: Path, *, is_own: bool) -> AgentFile:
        try:
            text = _text(path)
            agent, note = parse_agent(text, path.stem, is_own=is_own)
        except BadAgent as error:
            return AgentFile(path, path.stem, is_own, problem=str(error))
        return AgentFile(path, agent.name, is_own, agent, "" if is_own else self._doubt(path, text), note)

    def _doubt(self, path: Path, text: str) -> str:
        """Why the file of a workspace isn't trusted; empty if it is."""
        try:
            if self._trusted.trusts(path, text):
                return ""
            return (
                "it changed since you trusted it" if self._trusted.knows(path) else "you don't trust it yet"
            )
        except TrustUnreadable as error:
            return str(error)


class BadAgent(Exception):
    """Not a valid file of an agent. The text is the reason."""


def parse_agent(text: str, name: str, *, is_own: bool) -> tuple[NamedAgent, str]:
    """Return the agent in a file, and a note about a field without effect. Raises BadAgent.

    `name` is the agent's if the file has none. Other fields than these are ignored, so that files of other
    programs work.
    """
    from holdfast.tools.files.yaml_text import (  # takes a while, and few have agents
        BadYaml,
        front_matter,
        is_plain_name,
    )

    try:
        fields, body = front_matter(text)
    except BadYaml as error:
        raise BadAgent(f"it {error}") from error
    name, description = _field(fields, "name") or name, _field(fields, "description")
    if not is_plain_name(name):
        raise BadAgent("`name` must be 1 to 64 characters of a-z, 0-9 and single hyphens")
    if not 0 < len(description) <= DESCRIPTION_CHARS_MAX:
        raise BadAgent(f"`description` must have 1 to {DESCRIPTION_CHARS_MAX:,} characters")
    mode = _field(fields, "mode")
    if mode and mode not in MODES:
        raise BadAgent(f"`mode` must be one of {', '.join(MODES)}")
    agent = NamedAgent(
        name=name,
        description=" ".join(description.split()),
        instructions=body,
        tools=_tools(fields),
        model=_field(fields, "model"),
        mode=mode,
        budget=_budget(fields.get("budget")),
        effort=_effort(_field(fields, "effort")),
        temperature=_number(fields, "temperature", most=2.0),
        max_tokens=int(_number(fields, "max_tokens", most=10_000_000) or 0),
    )
    if is_own:
        return agent, ""
    ignored = [name for name, unset in _OF_MODELS.items() if getattr(agent, name) != unset]
    why = f"ignored, because a workspace can't choose them: {', '.join(ignored)}" if ignored else ""
    return replace(agent, **_OF_MODELS), why


def _field(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise BadAgent(f"`{name}` must be text")
    return value.strip()


def _tools(fields: Mapping[str, object]) -> tuple[str, ...]:
    """The names in a list, or in a text with commas or spaces; an empty list means no tools."""
    given = fields.get("tools", "")
    if isinstance(given, str):
        return tuple(given.replace(",", " ").split())
    if not isinstance(given, list):
        raise BadAgent("`tools` must be a list of names")
    return tuple(map(str, cast("list[object]", given))) or NO_TOOLS


def _effort(level: str) -> str:
    if level and not _LEVEL.fullmatch(level):
        raise BadAgent("`effort` must be a level such as low, medium or high")
    return level


def _number(fields: Mapping[str, object], name: str, *, most: float) -> float | None:
    given = fields.get(name)
    if given in (None, ""):
        return None
    try:
        number = float(str(given))
    except ValueError:
        raise BadAgent(f"`{name}` must be a number") from None
    if not 0 <= number <= most:
        raise BadAgent(f"`{name}` must be from 0 to {most:g}")
    return number


def _budget(given: object) -> Budget | None:
    if given in (None, ""):
        return None
    names = Budget.__struct_fields__
    if not isinstance(given, dict) or (cast("dict[str, object]", given).keys() - set(names)):
        raise BadAgent(f"`budget` can have {', '.join(names)}")
    try:
        budget = msgspec.convert(given, Budget, strict=False)
    except msgspec.ValidationError as error:
        raise BadAgent(f"`budget` has a value that isn't a number: {error}") from error
    if any(getattr(budget, name) < 0 for name in names):
        raise BadAgent("`budget` has a negative value")
    return budget


def _paths(folder: str) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".md"))
    except OSError:
        return []
    return [Path(folder, name) for name in names[:FILES_MAX]]


def _text(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            text = file.read(4 * FILE_CHARS_MAX + 1).decode("utf-8")
    except OSError as error:
        raise BadAgent(f"it can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadAgent("it isn't UTF-8") from error
    if len(text) > FILE_CHARS_MAX:
        raise BadAgent(f"it has more than {FILE_CHARS_MAX:,} characters")
    return text


@asynccontextmanager
async def open_library(_context: "FeatureContext") -> AsyncGenerator[AgentLibrary]:
    """The agents of this user and of the workspaces."""
    yield AgentLibrary(own_config_home())


def named_agent(library: AgentLibrary, choice: AgentChoice) -> RunSettings | None:
    """Return the settings with those of the chosen agent; None if there is none. Raises UnusableAgent."""
    file = library.files(choice.workspace).get(choice.name)
    if file is None:
        return None
    if file.agent is None:
        raise UnusableAgent(f"The agent {choice.name} can't be used. {file.path}: {file.problem}")
    if file.problem:
        raise UnusableAgent(
            f"The agent {choice.name} can't be used: {file.problem}. Read {file.path}, and trust it with "
            f"holdfast agents trust {file.path}"
        )
    return file.agent.applied(choice.settings)


def agent_names(library: AgentLibrary) -> Sequence[str]:
    """Return the names of the user's own agents."""
    return list(library.usable(None))


class _Refreshing(Struct, frozen=True):
    """Reads the agents of a workspace when a run begins there, for the tool `delegate`."""

    library: Any
    workspace: Path

    key: str = "agents"

    def read(self, *, trusted: bool) -> None:
        del trusted
        self.library.refresh(self.workspace)

    def parts(self, found: None) -> Sequence[ContextPart]:
        """Return nothing: the declaration of the tool lists the agents."""
        del found
        return ()


async def refreshed(request: ContextRequest) -> ContextReader | None:
    """Return what reads the agents of the run's workspace; None if this program has no library."""
    library = request.deps.features.get("delegation")
    return None if library is None else _Refreshing(library, request.workspace)
