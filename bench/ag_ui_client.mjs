// The official AG-UI client as a user of a running server; started by ag_ui_client.py.
import { HttpAgent } from "@ag-ui/client";
import { resumingFetch } from "./resuming_fetch.mjs";

const [url, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const tool = { name: "page_color", description: "Set the colour of the page", parameters: { type: "object" } };

function agentOf(threadId, options = {}) {
  return new HttpAgent({ url: `${url}/ag-ui`, headers, threadId, ...options });
}

function said(agent) {
  return agent.messages.filter((one) => one.role === "assistant").map((one) => one.content ?? "");
}

async function ask(agent, text, options = {}) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  let finished = {};
  await agent.runAgent(options, { onRunFinishedEvent: ({ event }) => void (finished = event) });
  return finished;
}

const tasks = {
  async talks() {
    const agent = agentOf("talks");
    await ask(agent, "talk");
    await ask(agent, "talk");
    return said(agent).join("|") === "Hello.|Hello." && agent.messages.length === 4;
  },
  async "interrupts and resumes"() {
    const agent = agentOf("interrupts");
    const first = await ask(agent, "remove");
    const [interrupt] = first.outcome.interrupts;
    let last = {};
    const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { choice: "once" } }];
    await agent.runAgent({ resume }, { onRunFinishedEvent: ({ event }) => void (last = event) });
    const results = agent.messages.filter((one) => one.role === "tool");
    return last.outcome.type === "success" && results.length === 1 && said(agent).at(-1) === "Removed.";
  },
  async "runs the front end's tool"() {
    const agent = agentOf("tool");
    const first = await ask(agent, "colour", { tools: [tool] });
    const [call] = first.outcome.pendingToolCallIds;
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call, content: "It is green now." });
    await agent.runAgent({ tools: [tool] });
    return said(agent).at(-1) === "Green it is.";
  },
  async "reads on while the server is killed"() {
    const agent = agentOf("killed", { fetch: resumingFetch() });
    const finished = await ask(agent, "slowly");
    console.log(JSON.stringify(said(agent)));
    return finished.outcome.type === "success" && said(agent).join("").endsWith("nineteen twenty.");
  },
  async "stops when it is told to"() {
    const agent = agentOf("stops", { fetch: resumingFetch() });
    agent.addMessage({ id: "m", role: "user", content: "slowly" });
    await agent.runAgent({}, { onTextMessageContentEvent: () => agent.abortRun() }).catch(() => {});
    for (let tries = 0; tries < 30; tries++) {
      const listed = await (await fetch(`${url}/v1/runs?session_id=stops`, { headers })).json();
      if (listed.data[0]?.status === "cancelled") return true;
      await new Promise((done) => setTimeout(done, 100));
    }
    return false;
  },
};

let failed = 0;
for (const [name, task] of Object.entries(tasks)) {
  console.log(`begins: ${name}`);
  const ok = await task().catch((error) => console.log(error));
  failed += ok ? 0 : 1;
  console.log(`${ok ? "ok" : "FAILED"}: ${name}`);
}
process.exit(failed ? 1 : 0);
