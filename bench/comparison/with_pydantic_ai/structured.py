"""Get the answer as a value of a type."""

from dataclasses import dataclass

from pydantic_ai import Agent


@dataclass
class City:
    """A city."""

    name: str
    country: str


city = Agent("openai:gpt-5", output_type=City).run_sync("Where does the Swiss government sit?").output
print(f"{city.name}, {city.country}")
