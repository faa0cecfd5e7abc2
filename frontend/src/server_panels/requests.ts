/** What the panels about the server ask it. */
import type { Result } from "../api.ts";
import type { NodeList, NodeShown, TargetList, TargetState, TargetTried } from "../bodies.ts";
import { ask } from "../state/asking.ts";

export async function readTargets(): Promise<Result<readonly TargetState[]>> {
  const result = await ask<TargetList>("GET", "/api/targets");
  return result.ok ? { ok: true, value: result.value.data } : result;
}

export async function readNodes(): Promise<Result<readonly NodeShown[]>> {
  const result = await ask<NodeList>("GET", "/api/nodes");
  return result.ok ? { ok: true, value: result.value.data } : result;
}

export function tryTarget(name: string): Promise<Result<TargetTried>> {
  return ask("POST", `/api/targets/${encodeURIComponent(name)}/try`, { body: {} });
}
