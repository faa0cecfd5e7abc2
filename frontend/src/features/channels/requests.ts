/** What the Channels panel asks the server. */
import type { Result } from "../../api.ts";
import type {
  ChannelHistory,
  ChannelList,
  ChannelLogEntry,
  ChannelShown,
  ChannelTestIntended,
  PairingCode,
} from "../../bodies.ts";
import { ask } from "../../state/asking.ts";

export type Role = "user" | "approver";

export async function readChannels(): Promise<Result<readonly ChannelShown[]>> {
  const result = await ask<ChannelList>("GET", "/api/channels");
  return result.ok ? { ok: true, value: result.value.data } : result;
}

export async function readLog(name: string): Promise<Result<readonly ChannelLogEntry[]>> {
  const result = await ask<ChannelHistory>("GET", `${pathOf(name)}/log`);
  return result.ok ? { ok: true, value: result.value.data } : result;
}

export function makeCode(name: string): Promise<Result<PairingCode>> {
  return ask("POST", `${pathOf(name)}/pair`, { body: {} });
}

export function allow(name: string, user: string, role: Role): Promise<Result<unknown>> {
  return ask("POST", `${pathOf(name)}/users`, { body: { user, role } });
}

export function revoke(name: string, user: string): Promise<Result<unknown>> {
  return ask("DELETE", `${pathOf(name)}/users/${encodeURIComponent(user)}`);
}

export function sendTest(name: string, chat: string): Promise<Result<ChannelTestIntended>> {
  return ask("POST", `${pathOf(name)}/test`, { body: { chat } });
}

function pathOf(name: string): string {
  return `/api/channels/${encodeURIComponent(name)}`;
}
