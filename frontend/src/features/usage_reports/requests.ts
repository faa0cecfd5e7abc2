/** Reads usage reports. */
import type { Result } from "../../api.ts";
import type { UsageSummary } from "../../bodies.ts";
import { ask } from "../../state/asking.ts";

/** Both days count, in UTC. */
export function readUsage(by: string, from: string, to: string): Promise<Result<UsageSummary>> {
  return ask("GET", `/api/usage?${new URLSearchParams({ by, from, to })}`);
}
