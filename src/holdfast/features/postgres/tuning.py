"""How a Postgres store trades latency, memory and patience; the defaults fit a server."""

from msgspec import Struct

from holdfast.journal.follow import WINDOW_BYTES_MAX


class PostgresTuning(Struct, frozen=True, kw_only=True):
    """Sizes and intervals of a node's store."""

    direct: str = ""  # the database past a pooler: for migrations, beats and notices
    lease_s: float = 4.0  # a node that hasn't renewed its lease for this long can be taken over from
    beat_s: float = 1.0
    listen_silence_s: float = 3.0  # a listener that hears no beat for this long connects again
    notice_pause_s: float = 0.002  # between notices, so that commits in quick succession share one
    connect_s: float = 3.0  # the longest that connecting may take
    query_s: float = 30.0  # the longest that a query may take
    write_s: float = 5.0  # the longest that an append may take before its connection counts as lost
    write_bytes_per_s: float = 200_000.0  # a large append may take longer by as much
    resolve_s: float = 5.0  # how long an append whose connection was lost waits to learn what became of it
    remember_s: float = 60.0  # how long a write is kept in memory in case the database loses it
    lock_s: float = 0.5  # how long a take-over waits for the dead node's last statement before it ends it
    pause_first_s: float = 0.05  # between attempts to reach the database, doubled each time
    pause_last_s: float = 0.2  # each attempt costs little, and runs wait for the one that succeeds
    poll_s: float = 0.015  # between looks at followed logs where notices don't arrive
    poll_idle_s: float = 1.0  # the same while nobody follows a log
    listen_again_s: float = 60.0  # how long a node polls before it tries to listen again
    window_bytes_max: int = WINDOW_BYTES_MAX  # the newest records that are kept in memory
    readers: int = 4
    blob_connections: int = 2
    object_bytes_min: int = 1024 * 1024  # larger blobs are objects, if there is an object store
    object_kept_s: float = 86_400.0  # after this, an object whose upload wasn't finished is deleted
    object_look_s: float = (
        60.0  # between looks for objects to delete, and whether the object store works again
    )
    group_jobs_max: int = 1_024  # per commit
    waiting_jobs_max: int = 65_536  # beyond this, appends are refused
