"""Get the answer as a value of a type."""

from dataclasses import dataclass

from holdfast import Agent


@dataclass
class City:
    """A city."""

    name: str
    country: str


city = Agent("openai:gpt-5").run_sync("Where does the Swiss government sit?", output_type=City).output
print(f"{city.name}, {city.country}")
