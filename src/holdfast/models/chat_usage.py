"""Token counts as the servers of the Chat Completions wire give them."""

import msgspec

from holdfast.model_events import TokensUsed
from holdfast.models.counts import Count, tokens_used


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count = None
    cache_write_tokens: Count = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Count = None


class Usage(msgspec.Struct, gc=False):
    """OpenAI's usage object, with what DeepSeek (cache hits) and Moonshot (cached) put beside it."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: Count = None
    cached_tokens: Count = None
    reasoning_tokens: Count = None

    def tokens_used(self) -> TokensUsed:
        """The counts in our terms."""
        prompt = self.prompt_tokens_details or _PromptDetails()
        completion = self.completion_tokens_details or _CompletionDetails()
        # xAI and Gemini leave reasoning out of completion_tokens and count it in the total.
        beyond_prompt = (self.total_tokens or 0) - (self.prompt_tokens or 0)
        return tokens_used(
            sent=self.prompt_tokens,
            made=max(self.completion_tokens or 0, beyond_prompt),
            cached=prompt.cached_tokens or self.prompt_cache_hit_tokens or self.cached_tokens,
            written=prompt.cache_write_tokens,
            reasoning=completion.reasoning_tokens or self.reasoning_tokens,
        )
