"""Give up on a model that sends nothing for five seconds, and ask again."""

from agents import Agent, Runner, set_default_openai_client
from openai import AsyncOpenAI

set_default_openai_client(AsyncOpenAI(timeout=5))
print(Runner.run_sync(Agent("main", model="gpt-5"), "Say hello").final_output)
