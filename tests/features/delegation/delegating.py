"""A model that delegates to a sub-agent, which delegates to another one."""

from agent.world import messages, roles
from holdfast.chaos import CallTool, Say, Script, SeenRequest


def choose(request: SeenRequest) -> Script:
    """The parent delegates to one sub-agent, which delegates to another one, which acts."""
    body = next(str(one["content"]) for one in reversed(messages(request)) if one["role"] == "user")
    has_result = "tool" in roles(request)
    if "first task" in body:
        return [Say("first done")] if has_result else [CallTool("delegate", {"task": "second task\nmore"})]
    if "second task" in body:
        return [Say("second done\nlast words")] if has_result else [CallTool("act")]
    return [Say("all done")] if has_result else [CallTool("delegate", {"task": "first task"})]
