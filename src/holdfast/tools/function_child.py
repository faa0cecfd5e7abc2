"""The child process of a function tool: calls one Python function with arguments from standard input.

It is started by its path, before any import path is set, so at first it imports only the standard library.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, cast

_MAIN = "__holdfast_child__"  # a script's `if __name__ == "__main__"` part does not run here
IS_TOOL_CHILD = True  # read by agents: a script that starts one at its top level must not start it here


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
        retry = str(error) if _is_retry(error) else ""
        answer = json.dumps({"error": _said(error), "retry": retry}).encode()
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
        first, *rest = request["name"].split(".")
        found: Any = _names_of(request["file"], first)[first]
    else:
        found = importlib.import_module(request["module"])
        rest = request["name"].split(".")
    for name in cast("list[str]", rest):
        found = getattr(found, name)
    return getattr(found, "function", found)  # what `tool` made of it holds the function itself


def _names_of(file: str, wanted: str) -> dict[str, Any]:
    """Return the names that a script defines. Its later code may fail, as running its agent does here."""
    names: dict[str, Any] = {"__name__": _MAIN, "__file__": file}
    code = compile(Path(file).read_bytes(), file, "exec")
    sys.modules[_MAIN] = module = ModuleType(_MAIN)
    module.__dict__.update(names)
    try:
        exec(code, module.__dict__)  # noqa: S102  # the author's own script, as in the parent
    except Exception:
        if wanted not in module.__dict__:
            raise
    return module.__dict__


def _is_retry(error: BaseException) -> bool:
    context = sys.modules.get("holdfast.tools.context")
    return context is not None and isinstance(error, context.Retry)


def _said(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    main()
