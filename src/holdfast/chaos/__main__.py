"""`python -m holdfast.chaos [port [script]]` serves the bad model server and prints its address."""

import asyncio
import contextlib
import sys

from holdfast.chaos.serve import serve_chaos


def _print_ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until interrupted."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8199
    script = " ".join(sys.argv[2:]) or None
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_chaos(port=port, script=script, on_ready=_print_ready))


if __name__ == "__main__":
    main()
