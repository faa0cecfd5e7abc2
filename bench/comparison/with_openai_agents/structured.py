"""Get the answer as a value of a type."""

from dataclasses import dataclass

from agents import Agent, Runner


@dataclass
class City:
    """A city."""

    name: str
    country: str


agent = Agent("main", model="gpt-5", output_type=City)
city = Runner.run_sync(agent, "Where does the Swiss government sit?").final_output
print(f"{city.name}, {city.country}")
