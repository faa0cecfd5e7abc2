"""A server in plain JSON lines, for what the SDK's servers would never do; its argument is what it should do.

It is started by its path and imports the standard library alone, so it is there within a moment.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

WISHES: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
MIB = 1024 * 1024
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def say(message: dict[str, Any]) -> None:
    whole = {"jsonrpc": "2.0", **message}
    if WISHES.get("id_last") and "result" in message:
        # As the SDK for TypeScript does it.
        whole = {"result": message["result"], "jsonrpc": "2.0", "id": message["id"]}
    sys.stdout.write(json.dumps(whole) + "\n")
    sys.stdout.flush()


def answer(request_id: int, text: str) -> None:
    say({"id": request_id, "result": {"content": [{"type": "text", "text": text}], "resultType": "complete"}})


def forever() -> None:
    while True:
        threading.Event().wait(1000)


def listed(params: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"name": one, "inputSchema": {"type": "object"}} if isinstance(one, str) else one
        for one in WISHES.get("tools", ["echo"])
    ]
    if WISHES.get("endless_pages"):
        return {"tools": tools, "nextCursor": "again"}
    if "page" not in WISHES:
        return {"tools": tools}
    start, size = int(params.get("cursor", 0)), int(WISHES["page"])
    more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
    return {"tools": tools[start : start + size], **more}


def call(request_id: int, name: str, args: dict[str, Any]) -> None:  # noqa: C901 - a list
    match name:
        case "pid":
            answer(request_id, str(os.getpid()))
        case "environment":
            answer(request_id, json.dumps(dict(os.environ)))  # noqa: TID251 - that is what is asked
        case "die":
            sys.stderr.write("my last words\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            say({"method": "notifications/progress", "params": {"progressToken": request_id, "progress": 1}})
        case "block":
            say({"method": "notifications/progress", "params": {"progressToken": request_id, "progress": 1}})
            forever()
        case "flood":
            flood(request_id)
        case "long":
            answer(request_id, "x" * args["size"])
        case "intricate":
            say(
                {"id": request_id, "result": {"content": [], "structuredContent": {"a": [[]] * args["size"]}}}
            )
        case "garble":
            say({"id": request_id, "result": {"content": 7}})
        case "elicit":
            elicit(request_id, args.get("times", 1))
        case "change":
            WISHES["tools"] = args["tools"]
            say({"method": "notifications/tools/list_changed"})
            answer(request_id, "changed")
        case _:
            answer(request_id, json.dumps(args))


ASKED: dict[str, tuple[int, int]] = {}
ACTIONS: list[str] = []


def elicit(request_id: int, times: int) -> None:
    """Ask so often at once, and end the call when all is answered."""
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    for number in range(times):
        ASKED[f"q{request_id}-{number}"] = (request_id, times)
        params = {"message": f"\x1b[31mSure\x07 {number}?", "requestedSchema": schema, "mode": "form"}
        say({"id": f"q{request_id}-{number}", "method": "elicitation/create", "params": params})


def take(message: dict[str, Any]) -> None:
    request_id, times = ASKED.pop(message["id"])
    ACTIONS.append(message["result"]["action"] if "result" in message else message["error"]["message"])
    if len(ACTIONS) == times:
        answer(request_id, json.dumps(ACTIONS))
        ACTIONS.clear()


def flood(request_id: int) -> None:
    sys.stderr.write("error!\n" * 100_000)
    for number in range(3_000):
        params = {"progressToken": request_id, "progress": number, "message": "\x1b[31m" + "m" * 50}
        say({"method": "notifications/progress", "params": params})
        say({"method": "notifications/message", "params": {"level": "info", "data": "d" * 100}})
        say({"method": "notifications/tools/list_changed"})
    answer(request_id, "survived")


def hear_the_modern_way(message: dict[str, Any]) -> bool:
    """Answer as a server of the protocol's newer era, which has no greeting; False for what they share."""
    match message.get("method"):
        case "initialize":
            data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            code = WISHES["modern"]
            say({"id": message["id"], "error": {"code": code, "message": "no such version", "data": data}})
        case "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **COMPLETE}
            say({"id": message["id"], "result": found})
        case "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            say({"method": "notifications/subscriptions/acknowledged", "params": params})
        case _:
            return False
    return True


def hear(message: dict[str, Any]) -> None:
    params: dict[str, Any] = message.get("params") or {}
    if WISHES.get("modern") and hear_the_modern_way(message):
        return
    match message.get("method"):
        case None:
            take(message)
        case "initialize" if not WISHES.get("mute"):
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
            say({"id": message["id"], "result": result})
        case "tools/list":
            say({"id": message["id"], "result": {**listed(params), **COMPLETE}})
        case "tools/call":
            call(message["id"], params["name"], params.get("arguments") or {})
        case "ping":
            say({"id": message["id"], "result": {}})
        case "notifications/cancelled" if "cancelled_file" in WISHES:
            with open(WISHES["cancelled_file"], "a", encoding="utf-8") as file:  # noqa: PTH123 - no more imports
                file.write(f"{params['requestId']}\n")
        case _:
            return


def main() -> None:
    if WISHES.get("stubborn"):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if "child" in WISHES:
        # A child that leaves the process group, keeps our output open and lost its mark.
        subprocess.Popen(["sleep", WISHES["child"]], start_new_session=True, env={})
    for line in WISHES.get("greeting", []):
        print(line, flush=True)  # noqa: T201 - that is the mistake which it is to make
    while WISHES.get("babble"):
        sys.stdout.write("y\n" * 1000)
    while WISHES.get("endless_line"):
        sys.stdout.write("y" * MIB)
    for line in sys.stdin:
        hear(json.loads(line))
    if WISHES.get("stubborn"):
        forever()


if __name__ == "__main__":
    main()
