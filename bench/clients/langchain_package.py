"""The langchain-openai package."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from reporting import Asking, Told, run, weather


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    celsius: int


def model_for(asking: Asking) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{asking.url}/v1",
        api_key=asking.key,
        model=asking.model,
        max_retries=asking.retries,
        timeout=asking.timeout_s,
        use_responses_api=asking.surface == "responses",
        stream_usage=True,
    )


class LangChain:
    async def ask(self, asking: Asking, prompt: str) -> Told:
        got = await model_for(asking).ainvoke(prompt)
        return Told(got.text, bool(got.usage_metadata and got.usage_metadata["total_tokens"]))

    async def stream(self, asking: Asking, prompt: str) -> Sequence[str]:
        return [chunk.text async for chunk in model_for(asking).astream(prompt)]

    async def converse(self, asking: Asking, prompts: Sequence[str]) -> tuple[list[str], list[str]]:
        cities, texts, messages = [], [], []
        model = model_for(asking).bind_tools([tool("weather")(weather)])
        for prompt in prompts:
            messages.append(HumanMessage(prompt))
            while True:
                got = await model.ainvoke(messages)
                messages.append(got)
                if not got.tool_calls:
                    break
                for call in got.tool_calls:
                    city = call["args"]["city"]
                    cities.append(city)
                    messages.append(ToolMessage(weather(city), tool_call_id=call["id"]))
            texts.append(got.text)
        return cities, texts

    async def structured(self, asking: Asking, prompt: str) -> dict[str, Any]:
        got = {
            method: await model_for(asking).with_structured_output(Weather, method=method).ainvoke(prompt)
            for method in ("json_schema", "function_calling")
        }
        if got["json_schema"] != got["function_calling"]:
            return {method: str(one) for method, one in got.items()}
        return got["json_schema"].model_dump()


if __name__ == "__main__":
    run(LangChain())
