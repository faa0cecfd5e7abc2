"""Give up on a model that sends nothing for five seconds, and ask again."""

from holdfast import Agent
from holdfast.targets import Patience

print(Agent("openai:gpt-5", patience=Patience(first_event_s=5)).run_sync("Say hello").output)
