"""What the policy must look at to know whether a command reads secrets; how, is somebody else's matter."""

from typing import Protocol

from holdfast.policy.shell.option_tables import Reach


class Look(Protocol):
    """Looks at files. Each method returns "" for nothing, or a sentence's end: what would be read.

    Where it cannot find out in time, it says so, as if there were something. It never raises.
    """

    def secret_below(self, folder: str, *, reach: Reach) -> str:
        """A secret file below a resolved folder: outside hidden ones, anywhere, or also behind links."""
        ...

    def secret_in_history(self, folder: str) -> str:
        """A secret file that the repository of a folder tracks, or tracked once."""
        ...

    def secret_in_remotes(self, folder: str) -> str:
        """A password or token in the addresses that the repository of a folder knows."""
        ...


class NoLook:
    """Finds nothing, for who judges commands alone."""

    def secret_below(self, folder: str, *, reach: Reach) -> str:
        """See Look."""
        del folder, reach
        return ""

    def secret_in_history(self, folder: str) -> str:
        """See Look."""
        del folder
        return ""

    def secret_in_remotes(self, folder: str) -> str:
        """See Look."""
        del folder
        return ""
