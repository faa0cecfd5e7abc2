"""Ask a model and print its answer."""

from pydantic_ai import Agent

print(Agent("openai:gpt-5").run_sync("Say hello").output)
