"""`python -m holdfast.chaos [port [script]]` serves the faulty model server and prints its address."""

import sys

from holdfast.chaos.serve import print_ready, serve_until_stopped

if __name__ == "__main__":
    code = serve_until_stopped(
        "127.0.0.1",
        int(sys.argv[1]) if len(sys.argv) > 1 else 8199,
        script=" ".join(sys.argv[2:]) or None,
        on_ready=print_ready,
    )
    sys.exit(code)
