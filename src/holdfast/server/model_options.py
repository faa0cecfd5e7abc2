"""What a client may ask of the model: the fields that every route which starts a run knows."""

from typing import Annotated, TypeAlias

import msgspec

from holdfast.server.problems import bad_request

Tokens: TypeAlias = Annotated[
    int, msgspec.Meta(ge=1, le=10_000_000, description="The most tokens of one answer of the model.")
]
Effort: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern="^[a-z0-9]{1,16}$",
        description=(
            "How long the model thinks: none, minimal, low, medium, high, xhigh, max, or a number of tokens "
            "for Anthropic models that take a budget; off says nothing about it to the model."
        ),
    ),
]
Temperature: TypeAlias = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=2, description="Left out for endpoints that refuse it, as Anthropic's own and Codex do."
    ),
]


class Reasoning(msgspec.Struct):
    """`reasoning` as the Responses API has it."""

    effort: Effort | None = None


class ModelOptions(msgspec.Struct, kw_only=True):
    """Sampling, length and effort, in all the names that clients have for them."""

    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    max_output_tokens: Tokens | None = None
    reasoning_effort: Effort | None = None
    reasoning: Reasoning | None = None

    @property
    def output_tokens_max(self) -> int:
        """The limit by whichever name it came; 0 is none; raises a Problem if two names disagree."""
        given = {
            one
            for one in (self.max_tokens, self.max_completion_tokens, self.max_output_tokens)
            if one is not None
        }
        if len(given) > 1:
            raise bad_request(
                "'max_tokens', 'max_completion_tokens' and 'max_output_tokens' are one limit; give it once",
                param="max_tokens",
            )
        return given.pop() if given else 0

    @property
    def effort(self) -> str:
        """How long the model is to think; empty is as long as it does by itself."""
        return self.reasoning_effort or (self.reasoning.effort if self.reasoning else None) or ""
