"""The child process of a function tool: calls one Python function with arguments from standard input.

It is started by its path, before any import path is set, so at first it imports only the standard library.
"""

import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any, cast

_MAIN = "__holdfast_child__"  # a script's `if __name__ == "__main__"` part does not run here


def main() -> None:
    """Read the request, call the function, write its result where the request says."""
    request: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    if request["import_path"] is not None:
        sys.path[:] = request["import_path"]
    if request["package_root"] not in sys.path:
        sys.path.append(request["package_root"])
    try:
        answer = _called(request)
    except BaseException as error:  # noqa: BLE001 - whatever the function raises is its answer
        answer = json.dumps({"error": _said(error)}).encode()
    sys.stdout.flush()
    with os.fdopen(int(request["answer_fd"]), "wb") as file:
        file.write(answer)


def _called(request: dict[str, Any]) -> bytes:
    import msgspec

    function = _found(request)
    from holdfast.tools.signatures import arguments_struct

    given = msgspec.convert(request["args"], arguments_struct(function), strict=False)
    names = (field.name for field in msgspec.structs.fields(given))
    value = function(**{name: getattr(given, name) for name in names})
    return msgspec.json.encode({"value": value})


def _found(request: dict[str, Any]) -> Any:
    if request["file"]:
        found: Any = runpy.run_path(request["file"], run_name=_MAIN)
        first, *rest = request["name"].split(".")
        found = found[first]
    else:
        found = importlib.import_module(request["module"])
        rest = request["name"].split(".")
    for name in cast("list[str]", rest):
        found = getattr(found, name)
    return getattr(found, "function", found)  # what `tool` made of it holds the function itself


def _said(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    main()
