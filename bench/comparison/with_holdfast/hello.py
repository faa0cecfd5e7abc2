"""Ask a model and print its answer."""

from holdfast import Agent

print(Agent("openai:gpt-5").run_sync("Say hello").output)
