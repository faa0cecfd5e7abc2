// The official ACP package for TypeScript as an editor; started by acp_client.py.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { PassThrough, Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import Ajv from "ajv/dist/2020.js";

const [program, config, folder, python, mcpServer] = process.argv.slice(2);

// The protocol's own schema: each frame of the agent must fit the part that it is an instance of.
const schema = JSON.parse(
  readFileSync(new URL("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", import.meta.url)),
);
const ajv = new Ajv({ strict: false, validateFormats: false });
ajv.addSchema(schema, "acp");
const parts = {
  initialize: "InitializeResponse",
  "session/new": "NewSessionResponse",
  "session/load": "LoadSessionResponse",
  "session/list": "ListSessionsResponse",
  "session/prompt": "PromptResponse",
  "session/set_mode": "SetSessionModeResponse",
  "session/set_config_option": "SetSessionConfigOptionResponse",
  "session/close": "CloseSessionResponse",
  "session/update": "SessionNotification",
  "session/request_permission": "RequestPermissionRequest",
  "fs/read_text_file": "ReadTextFileRequest",
};
const frames = { checked: 0, wrong: [] };

function checkFrame(frame, asked) {
  const name = parts[frame.method ?? asked.get(frame.id)];
  if (frame.error !== undefined) return;
  const fits = name !== undefined && ajv.getSchema(`acp#/$defs/${name}`);
  frames.checked++;
  if (!fits || !fits(frame.method ? frame.params : frame.result)) {
    frames.wrong.push({ name, errors: fits && fits.errors, frame });
  }
}

// An editor with one agent: what it was told and asked, and a way to kill the agent.
async function withAgent(work) {
  const agent = spawn(program, ["acp", "--config", config], { stdio: ["pipe", "pipe", "inherit"] });
  const asked = new Map();
  const toAgent = new TransformStream({
    transform(chunk, controller) {
      for (const line of new TextDecoder().decode(chunk).split("\n").filter(Boolean)) {
        const { id, method } = JSON.parse(line);
        if (method !== undefined && id !== undefined) asked.set(id, method);
      }
      controller.enqueue(chunk);
    },
  });
  toAgent.readable.pipeTo(Writable.toWeb(agent.stdin)).catch(() => {});
  const told = agent.stdout.pipe(new PassThrough());
  createInterface({ input: told }).on("line", (line) => checkFrame(JSON.parse(line), asked));
  const stream = acp.ndJsonStream(toAgent.writable, Readable.toWeb(agent.stdout));
  const seen = { updates: [], asked: [] };
  const editor = acp
    .client({ name: "bench" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void seen.updates.push(params.update))
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params);
      return { outcome: { outcome: "selected", optionId: "once" } };
    })
    .onRequest(acp.methods.client.fs.readTextFile, () => ({ content: "unsaved" }));
  const call = (context) => ({
    initialize: () =>
      context.request(acp.methods.agent.initialize, {
        protocolVersion: 1,
        clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
      }),
    open: (mcpServers = []) => context.request(acp.methods.agent.session.new, { cwd: folder, mcpServers }),
    mode: (sessionId, modeId) => context.request(acp.methods.agent.session.setMode, { sessionId, modeId }),
    option: (sessionId, configId, value) =>
      context.request(acp.methods.agent.session.setConfigOption, { sessionId, configId, value }),
    list: () => context.request(acp.methods.agent.session.list, {}),
    load: (sessionId) =>
      context.request(acp.methods.agent.session.load, { sessionId, cwd: folder, mcpServers: [] }),
    prompt: (sessionId, text) =>
      context.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] }),
    cancel: (sessionId) => context.notify(acp.methods.agent.session.cancel, { sessionId }),
  });
  try {
    return await editor.connectWith(stream, async (context) => {
      const use = call(context);
      await use.initialize();
      return await work(use, seen, agent);
    });
  } finally {
    agent.kill();
  }
}

const text = (seen) =>
  seen.updates
    .filter((one) => one.sessionUpdate === "agent_message_chunk")
    .map((one) => one.content.text)
    .join("");

async function until(condition) {
  for (let tries = 0; tries < 600 && !condition(); tries++) await new Promise((done) => setTimeout(done, 50));
  if (!condition()) throw new Error("It did not happen within 30 s.");
}

function check(name, ok) {
  console.log(`${ok ? "ok" : "FAILED"}: ${name}`);
  if (!ok) process.exitCode = 1;
}

let sessionId = "";
await withAgent(async (use, seen, agent) => {
  ({ sessionId } = await use.open());
  const said = await use.prompt(sessionId, "hi");
  check("talks", said.stopReason === "end_turn" && text(seen) === "Hello.");
  await use.prompt(sessionId, "remove");
  const ended = seen.updates.filter((one) => one.sessionUpdate === "tool_call_update").at(-1);
  check("approves", seen.asked.length === 1 && ended.status === "completed");
  await use.mode(sessionId, "unattended");
  await use.prompt(sessionId, "remove");
  const refused = seen.updates.filter((one) => one.sessionUpdate === "tool_call_update").at(-1);
  check("sets a mode", seen.asked.length === 1 && refused.status === "failed");
  const { configOptions } = await use.option(sessionId, "model", "main");
  check("sets a model", configOptions.find((one) => one.id === "model").currentValue === "main");
  const server = { name: "raw", command: python, args: [mcpServer], env: [] };
  const brought = await use.open([server]);
  await use.prompt(brought.sessionId, "echo");
  const echoed = seen.updates.filter((one) => one.sessionUpdate === "tool_call_update").at(-1);
  check("uses the editor's MCP server", seen.asked.length === 2 && echoed.status === "completed");
  check("lists", (await use.list()).sessions.length === 2);
  await use.prompt(brought.sessionId, "write");
  const diff = seen.updates.filter((one) => one.sessionUpdate === "tool_call").at(-1);
  check("shows a diff", diff.content[0].type === "diff" && diff.content[0].newText === "new text");
  await use.mode(sessionId, "default");
  const running = use.prompt(sessionId, "slowly");
  await until(() => text(seen).includes("three"));
  await use.cancel(sessionId);
  check("cancels", (await running).stopReason === "cancelled");
  use.prompt(sessionId, "slowly").catch(() => {});
  await until(() => text(seen).split("three").length > 2);
  agent.kill("SIGKILL");
}).catch(() => {});
await withAgent(async (use, seen) => {
  await use.load(sessionId);
  await until(() => text(seen).endsWith("twenty."));
  const people = seen.updates.filter((one) => one.sessionUpdate === "user_message_chunk");
  check("loads after a kill, and reads on", people.length === 5);
});
for (const one of frames.wrong.slice(0, 5)) console.log(JSON.stringify(one, null, 1));
check(`${frames.checked} frames fit the schema`, frames.checked > 50 && frames.wrong.length === 0);
process.exit();
