// The official ACP package for TypeScript as an editor; started by acp_client.py.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [program, config, folder] = process.argv.slice(2);

// An editor with one agent: what it was told and asked, and a way to kill the agent.
async function withAgent(work) {
  const agent = spawn(program, ["acp", "--config", config], { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  const seen = { updates: [], asked: [] };
  const editor = acp
    .client({ name: "bench" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void seen.updates.push(params.update))
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params);
      return { outcome: { outcome: "selected", optionId: "once" } };
    });
  const call = (context) => ({
    initialize: () =>
      context.request(acp.methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} }),
    open: () => context.request(acp.methods.agent.session.new, { cwd: folder, mcpServers: [] }),
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
  check("loads after a kill, and reads on", people.length === 4);
});
process.exit();
