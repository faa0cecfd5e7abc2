"""A target that takes back no thinking, or not this: the call goes on without it."""

from holdfast.chaos import Say, Status
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.messages import AssistantMessage, ModelRequest, SaidText, Thought, UserMessage
from holdfast.targets import Wire
from tables import for_each_row

from .calling import line_of

GOOD = [Say("hello")]
OLD_THOUGHTS: dict[Wire, tuple[Status, dict[str, str]]] = {
    "responses": (Status(400, code="invalid_encrypted_content"), {"encrypted_content": "gone-bad"}),
    "anthropic": (
        Status(400, message="messages.1.content.0: Invalid `signature` in `thinking` block"),
        {"signature": "gone-bad"},
    ),
}


@for_each_row("wire", OLD_THOUGHTS)
async def test_thinking_that_its_provider_no_longer_takes_back_is_left_out_of_the_call(wire: Wire) -> None:
    """S000-9: a conversation is worth more than what was thought in it once."""
    status, opaque = OLD_THOUGHTS[wire]
    thoughts = (Thought("hm", opaque, "main"), SaidText("hello"))
    request = ModelRequest(messages=(UserMessage("hi"), AssistantMessage(thoughts), UserMessage("and now?")))
    async with line_of(wire, [status], GOOD, [status], [status]) as (line, server):
        assert isinstance(await line.ask(request), Answer)
        assert ["gone-bad" in str(request.body) for request in server.seen.requests] == [True, False]
        assert not line.shared.asks_plainly(line.targets[0])
        ended = await line.ask(request, sink=line.another_voice())
        assert isinstance(ended, NoAnswer)
        assert "retried without its earlier reasoning" in ended.trace[0]


async def test_a_model_that_does_not_reason_is_asked_plainly_from_then_on() -> None:
    """P9: what the wire asks for by default must not make a target useless."""
    status = Status(400, message="Encrypted content is not supported with this model.")
    async with line_of("responses", [status], GOOD, GOOD) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert isinstance(await line.ask(sink=line.another_voice()), Answer)
        assert ["include" in (request.body or {}) for request in server.seen.requests] == [True, False, False]
