"""A server that tries things when it is told to, and says how each went; it needs no package."""

import json
import socket
import sys
from pathlib import Path


def tried(what: str, target: str) -> str:
    """Read, write or connect; "done", what was read, or the error."""
    try:
        if what == "read":
            return Path(target).read_text()
        if what == "write":
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text("by the server")
        if what == "tcp":
            socket.create_connection(("127.0.0.1", int(target)), timeout=5).close()
        if what == "unix":
            socket.socket(socket.AF_UNIX).close()
    except OSError as error:
        return type(error).__name__ + f" {error.errno}"
    return "done"


SCHEMA = {"type": "object"}
TOOL = {"name": "reach", "description": "Tries things.", "inputSchema": SCHEMA}
INFO: dict[str, object] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "reach", "version": "1"},
}
if len(sys.argv) > 2 and sys.argv[1] == "--first-write":
    Path(sys.argv[2]).expanduser().with_name("refused").write_text("x")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result: object = {}
    if asked["method"] == "initialize":
        result = INFO
    elif asked["method"] == "tools/list":
        result = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        tries = asked["params"]["arguments"]["tries"]
        text = json.dumps([tried(*each) for each in tries])
        result = {"content": [{"type": "text", "text": text}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
    sys.stdout.flush()
