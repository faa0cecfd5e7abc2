"""`llm`, set up with the file that its documentation names for servers like OpenAI's."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reporting import PATIENT_S, Asking, MissingCapability, Told, run, weather

SETUP = """\
- model_id: here
  model_name: {model}
  api_base: "{url}/v1"
  api_key_name: holdfast
  supports_tools: true
  supports_schema: true
"""
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "celsius": {"type": "integer"}},
    "required": ["city", "celsius"],
}


def model_for(asking: Asking) -> Any:
    if asking.timeout_s != PATIENT_S:
        raise MissingCapability
    folder = Path(tempfile.mkdtemp(dir=Path.home()))
    (folder / "extra-openai-models.yaml").write_text(SETUP.format(model=asking.model, url=asking.url))
    (folder / "keys.json").write_text(json.dumps({"holdfast": asking.key}))
    os.environ["LLM_USER_PATH"] = str(folder)  # noqa: TID251  # its own way to be set up
    import llm

    return llm.get_model("here")


class Llm:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = model_for(asking).prompt(prompt, stream=False)
        return Told(got.text(), bool(got.usage().output))

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        return list(model_for(asking).prompt(prompt, stream=True))

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities: list[str] = []

        def how_warm(city: str) -> str:
            """Say how warm it is in a city."""
            cities.append(city)
            return weather(city)

        how_warm.__name__ = "weather"
        talk = model_for(asking).conversation(tools=[how_warm])
        texts = [talk.chain(prompt).text() for prompt in prompts]
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        return json.loads(model_for(asking).prompt(prompt, schema=SCHEMA, stream=False).text())


if __name__ == "__main__":
    run(Llm())
