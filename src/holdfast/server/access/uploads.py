"""How many bytes of attachments each API key can store in a day."""

from collections import Counter

from holdfast.interfaces.clock import Clock
from holdfast.server.access.caller import caller_name
from holdfast.server.problems import too_many

DAY_MS = 86_400_000


class UploadQuota:
    """Counts the bytes that each key has sent today (UTC), since the server started."""

    def __init__(self, clock: Clock, bytes_per_day: int) -> None:
        self._clock = clock
        self._bytes_per_day = bytes_per_day  # 0: no limit
        self._day = 0
        self._used: Counter[str] = Counter()

    def add(self, size_bytes: int) -> None:
        """Count what the caller stores; raises a Problem, and counts nothing, if it's too much for today."""
        day, passed_ms = divmod(self._clock.now_ms(), DAY_MS)
        if day != self._day:
            self._day = day
            self._used.clear()
        key = caller_name()
        if self._bytes_per_day and self._used[key] + size_bytes > self._bytes_per_day:
            raise too_many(
                f"The key '{key}' has reached today's limit of {self._bytes_per_day} bytes of attachments "
                "(`server.limits.upload_bytes_per_day`). It resets at 00:00 UTC",
                code="upload_quota_reached",
                retry_after_s=(DAY_MS - passed_ms) // 1000 + 1,
            )
        self._used[key] += size_bytes
