/** What is said about the servers that share a database; pure. */
import type { NodeShown } from "../bodies.ts";

/** A server that has its store to itself has no name, and there is nothing to show about it. */
export function areSeveral(nodes: readonly NodeShown[]): boolean {
  return nodes.length > 1 || nodes.some(({ name }) => name !== "");
}

export function leaseOf({ lease_left_s: left }: NodeShown): { kind: "good" | "silent"; words: string } {
  if (left === null) return { kind: "good", words: "Not needed" };
  return left > 0
    ? { kind: "good", words: `Renewed; ${left.toFixed(1)} s left` }
    : {
        kind: "silent",
        words: "Expired: the server is down or can't reach the database",
      };
}

/** The volumes whose sessions it can continue. */
export function sharedWith({ homes }: NodeShown): string {
  const volume = "volume:";
  return homes
    .filter((home) => home.startsWith(volume))
    .map((home) => home.slice(volume.length))
    .join(", ");
}
