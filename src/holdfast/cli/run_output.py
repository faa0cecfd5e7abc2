"""The output of a single run: live on a terminal, otherwise only its answer, or its events."""

import asyncio
import sys
import time
from typing import Protocol, TextIO

from typing_extensions import override

from holdfast import events as e
from holdfast.cli.terminal.output import echo_exactly, is_drawable
from holdfast.client.updates import Away, Back, Heard, LiveLine, Seen
from holdfast.folds import transcript
from holdfast.safe_text import safe_json, safe_line

TICK_S = 0.5


class Output(Protocol):
    """Takes what is heard of one run."""

    async def hear(self, heard: Heard) -> None:
        """One more event, or something beside the log."""
        ...

    async def say(self, text: str) -> None:
        """Print a line for the person."""
        ...

    async def pause(self) -> None:
        """Take back what is live: somebody else writes now."""
        ...

    async def resume(self) -> None:
        """Show what is live again."""
        ...

    async def tick(self) -> None:
        """Keep what is live up to date until this is cancelled."""
        ...

    async def end(self, ended: e.RunEnded) -> None:
        """The run is over."""
        ...

    async def close(self) -> None:
        """Leave nothing behind."""
        ...


class TerminalOutput:
    """For a person who watches."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        # A program that reads the output doesn't need these.
        from holdfast.cli.terminal.live_region import LiveRegion
        from holdfast.cli.terminal.renderer import Renderer
        from holdfast.cli.terminal.style import Style

        self._errors = errors
        self.style = Style()
        self._renderer = Renderer(self.style)
        self._region = LiveRegion(out)
        self._writing = asyncio.Lock()
        self._is_hushed = False
        self._is_begun = False

    async def hear(self, heard: Heard) -> None:
        """See Output."""
        text = ""
        match heard:
            case Seen(event=e.RunEnded() as ended):
                text = self._renderer.finished(ended)
            case Seen():
                text = self._renderer.hear(heard.event)
            case LiveLine():
                self._renderer.server_says = heard
            case Away():
                self._renderer.lost(heard)
            case Back():
                self._renderer.away = None
        await self._show(text)

    async def say(self, text: str) -> None:
        """See Output."""
        await self._show(text)

    async def pause(self) -> None:
        """See Output."""
        async with self._writing:
            self._is_hushed = True
            await asyncio.to_thread(self._region.clear)

    async def resume(self) -> None:
        """See Output."""
        self._is_hushed = False
        await self._show("")

    async def tick(self) -> None:
        """See Output."""
        while True:
            await self._show("")
            await asyncio.sleep(TICK_S)

    async def end(self, ended: e.RunEnded) -> None:
        """See Output."""
        await self.close()
        await tell_ending(self._errors, ended)

    async def close(self) -> None:
        """See Output."""
        async with self._writing:
            await asyncio.to_thread(self._region.clear)
            self._is_hushed = True

    async def _show(self, settled: str) -> None:
        async with self._writing:
            if settled and not self._is_begun:
                settled, self._is_begun = settled.lstrip("\n"), True
            if self._is_hushed:
                if settled:
                    await asyncio.to_thread(self._region.show, settled, "")
                return
            now_ms = time.time_ns() // 1_000_000
            status = self._renderer.status(now_ms)
            live = (
                self._renderer.live()
                + self._renderer.pinned_lines()
                + (self.style.dim(f"⋯ {status}") if status else "")
            )
            await asyncio.to_thread(self._region.show, settled, live)


class _FileOutput:
    """For a file or a program: nothing is live, and errors go to stderr."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        self._out = out
        self._errors = errors

    async def say(self, text: str) -> None:
        """See Output."""
        await asyncio.to_thread(echo_exactly, text, self._errors)

    async def pause(self) -> None:
        """See Output."""

    async def resume(self) -> None:
        """See Output."""

    async def tick(self) -> None:
        """See Output."""

    async def end(self, ended: e.RunEnded) -> None:
        """See Output."""
        await tell_ending(self._errors, ended)

    async def close(self) -> None:
        """See Output."""


class PlainOutput(_FileOutput):
    """The answer, clean, once it is there."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        super().__init__(out, errors)
        self._seen = transcript.Transcript()
        self._switch = ""

    async def hear(self, heard: Heard) -> None:
        """See Output; another model than the chosen one is worth a line, once."""
        if not isinstance(heard, Seen):
            return
        transcript.apply(self._seen, heard.seq, heard.event)
        if isinstance(heard.event, e.TargetSwitched):
            from holdfast.cli.terminal.tool_output import switch_words

            before, self._switch = self._switch, safe_line(switch_words(heard.event))
            if self._switch != before:
                await self.say(f"holdfast: {self._switch}\n")

    @override
    async def end(self, ended: e.RunEnded) -> None:
        answer = transcript.output(self._seen, ended.run_id)
        if answer:
            text = answer if answer.endswith("\n") else f"{answer}\n"
            await asyncio.to_thread(echo_exactly, text, self._out)
        await super().end(ended)


class JsonOutput(_FileOutput):
    """Each event as journaled, one JSON object a line."""

    async def hear(self, heard: Heard) -> None:
        """See Output."""
        if isinstance(heard, Seen):
            await asyncio.to_thread(echo_exactly, safe_json(heard.body.decode()) + "\n", self._out)


async def tell_ending(errors: TextIO, ended: e.RunEnded) -> None:
    """Nothing if all went well; the whole trace, once, if it did not."""
    if ended.outcome != "completed":
        from holdfast.cli.terminal.tool_output import plain_ending

        await asyncio.to_thread(echo_exactly, "\n".join(plain_ending(ended)) + "\n", errors)


def output_for(form: str) -> TerminalOutput | PlainOutput | JsonOutput:
    """The output that suits what was asked for and where it goes."""
    if form == "json":
        return JsonOutput(sys.stdout, sys.stderr)
    if is_drawable(sys.stdout):
        return TerminalOutput(sys.stdout, sys.stderr)
    return PlainOutput(sys.stdout, sys.stderr)
