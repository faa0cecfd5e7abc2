// The openai package for Node.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { run, weather } from "./reporting.mjs";

const Weather = z.object({ city: z.string(), celsius: z.number() });
const described = {
  name: "weather",
  description: "How warm it is in a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

const clientFor = (asking) =>
  new OpenAI({
    baseURL: `${asking.url}/v1`,
    apiKey: asking.key,
    maxRetries: asking.retries,
    timeout: asking.timeout_s * 1000,
  });
const user = (content) => ({ role: "user", content });

const chat = {
  async ask(asking, prompt) {
    const got = await clientFor(asking).chat.completions.create({ model: asking.model, messages: [user(prompt)] });
    return { text: got.choices[0].message.content, tokens: got.usage?.total_tokens > 0 };
  },
  async stream(asking, prompt) {
    const chunks = await clientFor(asking).chat.completions.create({
      model: asking.model,
      messages: [user(prompt)],
      stream: true,
    });
    const pieces = [];
    for await (const chunk of chunks) pieces.push(chunk.choices[0]?.delta?.content);
    return pieces;
  },
  async converse(asking, prompts) {
    const client = clientFor(asking);
    const [cities, texts, messages] = [[], [], []];
    for (const prompt of prompts) {
      messages.push(user(prompt));
      for (;;) {
        const got = await client.chat.completions.create({
          model: asking.model,
          messages,
          tools: [{ type: "function", function: described }],
        });
        const { message } = got.choices[0];
        messages.push(message);
        if (!message.tool_calls?.length) {
          texts.push(message.content);
          break;
        }
        for (const call of message.tool_calls) {
          const { city } = JSON.parse(call.function.arguments);
          cities.push(city);
          messages.push({ role: "tool", tool_call_id: call.id, content: weather(city) });
        }
      }
    }
    return [cities, texts];
  },
  async structured(asking, prompt) {
    const got = await clientFor(asking).chat.completions.parse({
      model: asking.model,
      messages: [user(prompt)],
      response_format: zodResponseFormat(Weather, "weather"),
    });
    return got.choices[0].message.parsed;
  },
};

const responses = {
  async ask(asking, prompt) {
    const got = await clientFor(asking).responses.create({ model: asking.model, input: prompt });
    return { text: got.output_text, tokens: got.usage?.total_tokens > 0 };
  },
  async stream(asking, prompt) {
    const pieces = [];
    const events = clientFor(asking).responses.stream({ model: asking.model, input: prompt });
    for await (const event of events) {
      if (event.type === "response.output_text.delta") pieces.push(event.delta);
    }
    const final = await events.finalResponse();
    if (final.status !== "completed") throw new Error(`the response is ${final.status}`);
    return pieces;
  },
  async converse(asking, prompts) {
    const client = clientFor(asking);
    const [cities, texts, input] = [[], [], []];
    for (const prompt of prompts) {
      input.push(user(prompt));
      for (;;) {
        const got = await client.responses.create({
          model: asking.model,
          input,
          tools: [{ type: "function", ...described }],
        });
        input.push(...got.output);
        const calls = got.output.filter((item) => item.type === "function_call");
        if (!calls.length) {
          texts.push(got.output_text);
          break;
        }
        for (const call of calls) {
          const { city } = JSON.parse(call.arguments);
          cities.push(city);
          input.push({ type: "function_call_output", call_id: call.call_id, output: weather(city) });
        }
      }
    }
    return [cities, texts];
  },
  async structured(asking, prompt) {
    const got = await clientFor(asking).responses.parse({
      model: asking.model,
      input: prompt,
      text: { format: zodTextFormat(Weather, "weather") },
    });
    return got.output_parsed;
  },
};

run(JSON.parse(process.argv[2]).surface === "chat" ? chat : responses);
