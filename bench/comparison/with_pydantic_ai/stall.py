"""Give up on a model that sends nothing for five seconds, and ask again."""

from pydantic_ai import Agent, ModelSettings

print(Agent("openai:gpt-5", model_settings=ModelSettings(timeout=5)).run_sync("Say hello").output)
