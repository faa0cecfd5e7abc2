"""`holdfast chaos serve`: the bad model server for anyone's tests."""

import asyncio
import sys

from holdfast.chaos import SCENARIOS, BadScript, serve_chaos

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def serve_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve until Ctrl-C; the exit code."""
    try:
        asyncio.run(serve_chaos(host, port, script=script, on_ready=_say))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadScript as error:
        print(f"holdfast: --script: {error}", file=sys.stderr)
        return MISUSED
    except OSError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    return OK


def _say(base_url: str) -> None:
    names = ", ".join(f"chaos/{name}" for name in SCENARIOS)
    print(f"Misbehaving model server on {base_url} (Responses, Chat Completions, Anthropic Messages)")
    print(f"Models: {names}", flush=True)
