"""The official openai package as a client of a server under test."""

import openai

from serving import Served


def client_of(server: Served, *, max_retries: int = 0) -> openai.AsyncOpenAI:
    """A client whose failures are seen at once, unless it is to try again."""
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1",
        api_key="any",
        max_retries=max_retries,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),  # reading all certificates takes long
    )
