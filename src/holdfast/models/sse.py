"""Server-sent events: bytes, however they were cut on their way, into frames."""

import msgspec

FRAME_BYTES_MAX = 8 * 1024 * 1024
STREAM_BYTES_MAX = 512 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class MalformedFrame(Exception):
    """What came is not the protocol; the only exception of a frame parser or a wire parser."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event of the stream: its name, empty where none was given, and its data."""

    event: bytes
    data: bytes


class SseParser:
    """Cuts one event stream into frames, in time linear in its length, wherever it was split.

    `comments` counts the comment lines: the peer is alive, and has said nothing.
    After a `MalformedFrame` the parser is of no further use.
    """

    def __init__(
        self, *, frame_bytes_max: int = FRAME_BYTES_MAX, stream_bytes_max: int = STREAM_BYTES_MAX
    ) -> None:
        self.comments = 0
        self._frame_bytes_max = frame_bytes_max
        self._bytes_left = stream_bytes_max
        self._head: bytes | None = b""  # until it is known whether the stream begins with a BOM
        self._after_cr = False
        self._half_line = bytearray()
        self._event = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames that this piece completes."""
        if self._head is not None:
            piece = self._without_bom(piece)
        if self._after_cr or b"\r" in piece:
            piece = self._with_lf_alone(piece)
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise MalformedFrame("the stream is longer than any answer")
        frames: list[Frame] = []
        if self._half_line or self._data or self._event:
            # Finish the frame that was begun; what follows can go the quick way.
            end = piece.find(b"\n\n")
            begun = len(piece) if end < 0 else end + 2
            self._feed_lines(piece[:begun], frames)
            piece = piece[begun:]
        if piece:
            self._feed_frames(piece, frames)
        return frames

    def end(self) -> list[Frame]:
        """The frame that lacked only its blank line when the stream ended; half a line is dropped."""
        frames: list[Frame] = []
        if not self._half_line:
            self._dispatch(frames)
        return frames

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

    def _feed_frames(self, piece: bytes, frames: list[Frame]) -> None:
        """Begins at a frame's first byte: frames of one data line, named or not, need no line by line."""
        if len(piece) > self._frame_bytes_max:
            self._feed_lines(piece, frames)
            return
        blocks = piece.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            if block.startswith(b"data: "):
                if block.find(b"\n") < 0:
                    frames.append(Frame(b"", block[6:]))
                    continue
            elif block.startswith(b"event: "):
                event, _, line = block.partition(b"\n")
                if line.startswith(b"data: ") and line.find(b"\n") < 0:
                    frames.append(Frame(event[7:], line[6:]))
                    continue
            self._feed_lines(block + b"\n\n", frames)
        if rest:
            self._feed_lines(rest, frames)

    def _feed_lines(self, text: bytes, frames: list[Frame]) -> None:
        lines = text.split(b"\n")
        half_line = lines.pop()
        if lines and self._half_line:
            lines[0] = bytes(self._half_line) + lines[0]
            self._half_line.clear()
        for line in lines:
            if line:
                self._take(line)
            else:
                self._dispatch(frames)
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

    def _dispatch(self, frames: list[Frame]) -> None:
        if self._data:
            frames.append(Frame(self._event, b"\n".join(self._data)))
            self._data = []
            self._data_bytes = 0
        self._event = b""
