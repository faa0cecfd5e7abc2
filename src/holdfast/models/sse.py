"""Server-sent events: turns bytes, however they were split, into frames."""

import msgspec

FRAME_BYTES_MAX = 8 * 1024 * 1024
STREAM_BYTES_MAX = 8 * 1024 * 1024 * 1024  # a frame can be a hundred times as large as its text

_BOM = b"\xef\xbb\xbf"
_CR = 13


class MalformedFrame(Exception):
    """The data violates the protocol; the only exception that frame and wire parsers raise."""


class SseFrame(msgspec.Struct, frozen=True, gc=False):
    """One event of the stream: its name, which may be empty, and its data."""

    event: bytes
    data: bytes


class FrameRun(msgspec.Struct, gc=False):
    """The data of adjacent frames with the same name."""

    event: bytes
    datas: list[bytes]


class SseParser:
    """Splits one event stream into frames, in linear time, wherever the bytes were cut.

    A stream of tokens repeats one head, `data: ` or a name and `data: `, thousands of times, so complete
    frames with the same head as the last one are split at that head, all at once.
    `comments` counts the comment lines, which show that the peer is alive but say nothing.
    After a `MalformedFrame` the parser can't be used any more.
    """

    def __init__(
        self, *, frame_bytes_max: int = FRAME_BYTES_MAX, stream_bytes_max: int = STREAM_BYTES_MAX
    ) -> None:
        self.comments = 0
        self._frame_bytes_max = frame_bytes_max
        self._bytes_left = stream_bytes_max
        self._between = False  # between two frames, and past any BOM
        self._head: bytes | None = b""  # until it is known whether the stream begins with a BOM
        self._after_cr = False
        self._half_line = bytearray()
        self._event = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._last_event: bytes = b""
        self._last_head = b"data: "
        self._lines_each = 2  # lines of a frame with that head

    def feed(self, piece: bytes) -> list[SseFrame]:
        """The frames that this piece completes."""
        return [SseFrame(run.event, data) for run in self.runs(piece) for data in run.datas]

    def runs(self, piece: bytes) -> list[FrameRun]:
        """The frames that this piece completes; adjacent ones with the same name are joined."""
        head, size = self._last_head, len(piece)
        if (
            self._between
            and piece.startswith(head)
            and piece.endswith(b"\n\n")
            and piece.find(b"\n", len(head)) == size - 2
            and _CR not in piece
            and size <= self._frame_bytes_max
            and size <= self._bytes_left
        ):
            # A single frame like the last one, as from a server that flushes every token.
            self._bytes_left -= size
            return [FrameRun(self._last_event, [piece[len(head) : -2]])]
        runs = self._runs(piece)
        self._between = self._head is None and not (
            self._half_line or self._data or self._event or self._after_cr
        )
        return runs

    def _runs(self, piece: bytes) -> list[FrameRun]:
        if self._head is not None:
            piece = self._without_bom(piece)
        if self._after_cr or _CR in piece:
            piece = self._with_lf_alone(piece)
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise MalformedFrame("the stream is longer than any answer")
        runs: list[FrameRun] = []
        if self._half_line or self._data or self._event:
            # Finish the open frame first; the rest can take the fast path.
            end = piece.find(b"\n\n")
            begun = len(piece) if end < 0 else end + 2
            self._feed_lines(piece[:begun], runs)
            piece = piece[begun:]
        if len(piece) > self._frame_bytes_max:
            self._feed_lines(piece, runs)
            return runs
        if piece.startswith(self._last_head):
            piece = self._feed_alike(piece, runs)
        if piece:
            self._feed_frames(piece, runs)
        return runs

    def end(self) -> list[SseFrame]:
        """The frame that lacked only its blank line when the stream ended; half a line is dropped."""
        runs: list[FrameRun] = []
        if not self._half_line:
            self._dispatch(runs)
        return [SseFrame(run.event, data) for run in runs for data in run.datas]

    def _without_bom(self, piece: bytes) -> bytes:
        head = (self._head or b"") + piece
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _with_lf_alone(self, piece: bytes) -> bytes:
        if not piece:
            return piece
        if self._after_cr and piece[:1] == b"\n":
            piece = piece[1:]
        self._after_cr = piece[-1:] == b"\r"
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _feed_alike(self, piece: bytes, runs: list[FrameRun]) -> bytes:
        """Take the leading frames that have the same head as the last one; returns the rest."""
        head = self._last_head
        datas = piece.split(b"\n\n" + head)
        datas[0] = datas[0][len(head) :]
        last, ended, rest = datas.pop().partition(b"\n\n")
        if ended:
            datas.append(last)
        else:
            rest = head + last
        # An extra line feed means a line that isn't data, inside a frame or between two.
        if not datas or piece.count(b"\n", 0, len(piece) - len(rest)) != self._lines_each * len(datas):
            return piece
        runs.append(FrameRun(self._last_event, datas))
        return rest

    def _feed_frames(self, piece: bytes, runs: list[FrameRun]) -> None:
        """Parse from the start of a frame; frames with one data line aren't split into lines."""
        blocks = piece.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            if block.startswith(b"data: "):
                if block.find(b"\n") < 0:
                    self._add(b"", block[6:], runs)
                    continue
            elif block.startswith(b"event: "):
                event, _, line = block.partition(b"\n")
                if line.startswith(b"data: ") and line.find(b"\n") < 0:
                    self._add(event[7:], line[6:], runs)
                    continue
            self._feed_lines(block + b"\n\n", runs)
        if rest:
            self._feed_lines(rest, runs)

    def _feed_lines(self, text: bytes, runs: list[FrameRun]) -> None:
        lines = text.split(b"\n")
        half_line = lines.pop()
        if lines and self._half_line:
            lines[0] = bytes(self._half_line) + lines[0]
            self._half_line.clear()
        for line in lines:
            if line:
                self._take(line)
            else:
                self._dispatch(runs)
        if half_line:
            self._half_line += half_line
            self._check(len(self._half_line))

    def _take(self, line: bytes) -> None:
        self._check(len(line) + 1)
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(line) + 1
        elif field == b"event":
            self._event = value
        elif not field:
            self.comments += 1
        elif field == b"error":
            # llama.cpp reported errors in a field of its own name until late in 2025.
            self._event = b"error"
            self._data.append(value)
            self._data_bytes += len(line) + 1

    def _check(self, more_bytes: int) -> None:
        if self._data_bytes + more_bytes > self._frame_bytes_max:
            raise MalformedFrame(f"a frame is longer than {self._frame_bytes_max} bytes")

    def _dispatch(self, runs: list[FrameRun]) -> None:
        if self._data:
            self._add(self._event, b"\n".join(self._data), runs)
            self._data = []
            self._data_bytes = 0
        self._event = b""

    def _add(self, event: bytes, data: bytes, runs: list[FrameRun]) -> None:
        if runs and runs[-1].event == event:
            runs[-1].datas.append(data)
            return
        runs.append(FrameRun(event, [data]))
        if event != self._last_event:
            self._last_event = event
            self._last_head = b"event: " + event + b"\ndata: " if event else b"data: "
            self._lines_each = 3 if event else 2
