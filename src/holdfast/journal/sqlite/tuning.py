"""How a SQLite store trades memory, latency and file size; the defaults fit a server."""

from msgspec import Struct


class Tuning(Struct, frozen=True, kw_only=True):
    """Sizes and intervals of the store's writer."""

    # Recent events move into their logs when there are this many in all and this many per log. The more
    # events of a log move at once, the fewer pages are written.
    moved_min: int = 2_000
    moved_of_log: int = 8
    group_jobs_max: int = 4_096  # per commit
    waiting_jobs_max: int = 65_536  # beyond this, appends are refused
    lock_s: float = 1.0  # how long a write waits for another program's lock before it's refused
    look_s: float = 2.0  # how often an idle writer checks that its files are still there
    mark_s: float = 2.0  # how often a busy writer checks that the commit mark's file is still there
    save_again_s: float = 5.0  # how soon saving the contents of removed files is tried again
