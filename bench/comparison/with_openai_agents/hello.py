"""Ask a model and print its answer."""

from agents import Agent, Runner

print(Runner.run_sync(Agent("main", model="gpt-5"), "Say hello").final_output)
