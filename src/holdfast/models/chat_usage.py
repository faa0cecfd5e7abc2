"""Token counts as the servers of the Chat Completions wire give them."""

import msgspec

from holdfast.model_events import TokensUsed

_Count = int | float | None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: _Count = None
    cache_write_tokens: _Count = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: _Count = None


class Usage(msgspec.Struct, gc=False):
    """OpenAI's usage object, with what DeepSeek (cache hits) and Moonshot (cached) put beside it."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: _Count = None
    cached_tokens: _Count = None
    reasoning_tokens: _Count = None

    def tokens_used(self) -> TokensUsed:
        """The counts in our terms."""
        prompt = self.prompt_tokens_details or _PromptDetails()
        completion = self.completion_tokens_details or _CompletionDetails()
        sent = int(self.prompt_tokens or 0)
        # xAI and Gemini leave reasoning out of completion_tokens and count it in the total.
        beyond_prompt = int(self.total_tokens or 0) - sent
        return TokensUsed(
            input_tokens=sent,
            output_tokens=max(int(self.completion_tokens or 0), beyond_prompt),
            cached_tokens=int(
                prompt.cached_tokens or self.prompt_cache_hit_tokens or self.cached_tokens or 0
            ),
            cache_write_tokens=int(prompt.cache_write_tokens or 0),
            reasoning_tokens=int(completion.reasoning_tokens or self.reasoning_tokens or 0),
        )
