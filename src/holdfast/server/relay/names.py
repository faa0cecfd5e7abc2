"""Which model names are relayed, and to which targets; the name alone decides."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field

from holdfast.targets import Target

AGENT_NAMES = ("holdfast", "hermes-agent")  # they run the agent on its default target
AGENT_ON = "holdfast/"  # before the name of a target: the agent on that target


class RelayNames(Struct, frozen=True):
    """The names of targets, their models, and the aliases and patterns of the configuration."""

    targets: tuple[Target, ...] = ()
    models: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def targets_of(self, name: str) -> tuple[Target, ...]:
        """The targets behind a name, in order of preference; empty if the name isn't relayed."""
        if name in AGENT_NAMES or name.startswith(AGENT_ON):
            return ()
        if name in self.models:
            return self._named(self.models[name])
        named = [target for target in self.targets if target.name == name]
        if found := named or [target for target in self.targets if target.model == name]:
            return (found[0],)
        for pattern, names in self.models.items():
            if fnmatchcase(name, pattern):
                return self._named(names)
        return ()

    def default_of(self, wire: str) -> tuple[Target, ...]:
        """The target for a surface that always relays: the first of its wire, or else the first."""
        same = [target for target in self.targets if target.wire == wire]
        return (*same, *self.targets)[:1]

    def listed(self) -> list[str]:
        """Return every relayed name that can be listed. Patterns can't."""
        plain = [name for name in self.models if not set(name) & set("*?[")]
        named = [target.name for target in self.targets]
        return list(dict.fromkeys([*plain, *named, *(target.model for target in self.targets)]))

    def _named(self, names: Sequence[str]) -> tuple[Target, ...]:
        by_name = {target.name: target for target in self.targets}
        return tuple(by_name[name] for name in names if name in by_name)


def agent_model(name: str) -> str:
    """Return the target in an agent's name, or else the name itself."""
    return name.removeprefix(AGENT_ON)
