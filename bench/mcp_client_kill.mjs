// The official MCP package for TypeScript as a client; started by mcp_client_kill.py.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [way, where, secret] = process.argv.slice(2);
const transport =
  way === "http"
    ? new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: { Authorization: `Bearer ${secret}` } },
        reconnectionOptions: {
          initialReconnectionDelay: 500,
          maxReconnectionDelay: 2000,
          reconnectionDelayGrowFactor: 1.5,
          maxRetries: 20,
        },
      })
    : new StdioClientTransport({ command: where, args: ["mcp", "--config", secret] });
const client = new Client({ name: "bench", version: "1" });
client.onerror = () => {};
await client.connect(transport);
const call = { name: "run_agent", arguments: { message: "slowly" } };
const result = await client.callTool(call, undefined, {
  onprogress: ({ message }) => console.log(`progress: ${message}`),
  timeout: 120_000,
});
console.log(`answer: ${result.content[0].text}`);
await client.close();
process.exit(0);
