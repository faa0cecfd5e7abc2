"""Let the second turn know the first."""

from pydantic_ai import Agent

agent = Agent("openai:gpt-5")
first = agent.run_sync("I am Ann.")
print(agent.run_sync("Who am I?", message_history=first.all_messages()).output)
