// Vercel's AI SDK, with its providers for OpenAI (both protocols) and Anthropic.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { NotOffered, run, weather } from "./reporting.mjs";

const Weather = z.object({ city: z.string(), celsius: z.number() });

function optionsFor(asking) {
  if (asking.timeout_s !== 30) throw new NotOffered(); // its timeout is for all attempts together
  const provider = asking.surface === "messages" ? createAnthropic : createOpenAI;
  const made = provider({ baseURL: `${asking.url}/v1`, apiKey: asking.key });
  const model =
    asking.surface === "chat"
      ? made.chat(asking.model)
      : asking.surface === "responses"
        ? made.responses(asking.model)
        : made(asking.model);
  return { model, maxRetries: asking.retries, timeout: asking.timeout_s * 1000 };
}

const client = {
  async ask(asking, prompt) {
    const got = await generateText({ ...optionsFor(asking), prompt });
    return { text: got.text, tokens: got.usage.totalTokens > 0 };
  },
  async stream(asking, prompt) {
    let failed;
    const got = streamText({
      ...optionsFor(asking),
      prompt,
      onError: ({ error }) => {
        failed = error;
      },
    });
    const pieces = [];
    for await (const piece of got.textStream) pieces.push(piece);
    if (failed) throw failed;
    return pieces;
  },
  async converse(asking, prompts) {
    const [cities, texts, messages] = [[], [], []];
    const tools = {
      weather: tool({
        description: "How warm it is in a city.",
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }) => {
          cities.push(city);
          return weather(city);
        },
      }),
    };
    for (const prompt of prompts) {
      messages.push({ role: "user", content: prompt });
      const got = await generateText({ ...optionsFor(asking), messages, tools, stopWhen: isStepCount(4) });
      messages.push(...got.response.messages);
      texts.push(got.text);
    }
    return [cities, texts];
  },
  async structured(asking, prompt) {
    const got = await generateText({
      ...optionsFor(asking),
      prompt,
      output: Output.object({ schema: Weather }),
    });
    return got.output;
  },
};

run(client);
