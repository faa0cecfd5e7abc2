"""`python -m holdfast.chaos [port [script]]` serves the faulty model server and prints its address."""

import asyncio
import sys
from collections.abc import Callable

from holdfast.chaos.scenarios import SCENARIOS
from holdfast.chaos.script_text import BadScript
from holdfast.chaos.serve import serve_chaos

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def serve_until_stopped(
    host: str, port: int, *, script: str | None, on_ready: Callable[[str], None] | None = None
) -> int:
    """Serve until Ctrl-C, and return the exit code."""
    try:
        asyncio.run(serve_chaos(host, port, script=script, on_ready=on_ready or _print_models))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadScript as error:
        sys.stderr.write(f"holdfast: --script: {error}\n")
        return MISUSED
    except OSError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        return FAILED
    return OK


def _print_models(base_url: str) -> None:
    _print_ready(f"Faulty model server on {base_url} (Responses, Chat Completions, Anthropic Messages)")
    _print_ready(f"Models: {', '.join(f'chaos/{name}' for name in SCENARIOS)}")


def _print_ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    code = serve_until_stopped(
        "127.0.0.1",
        int(sys.argv[1]) if len(sys.argv) > 1 else 8199,
        script=" ".join(sys.argv[2:]) or None,
        on_ready=_print_ready,
    )
    sys.exit(code)
