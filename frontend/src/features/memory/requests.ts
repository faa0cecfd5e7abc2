/** What people change in memories. */
import type { Result } from "../../api.ts";
import type { MemoryChangeShown, MemoryForgotten, MemoryHistory, MemoryShown } from "../../bodies.ts";
import { ask } from "../../state/asking.ts";
import { loadMemories } from "./memories.ts";

/** The fields that name a memory in requests. */
function placeOf({ scope, workspace, chat }: MemoryShown): Readonly<Record<string, string>> {
  return { scope, ...(workspace ? { workspace } : {}), ...(chat ? { chat } : {}) };
}

async function changed<Value>(request: Promise<Result<Value>>): Promise<Result<Value>> {
  const result = await request;
  await loadMemories();
  return result;
}

export function decideMemory(
  memory: MemoryShown,
  verdict: "accept" | "reject",
  ids: readonly string[],
): Promise<Result<unknown>> {
  return changed(ask("POST", "/v1/memory/decide", { body: { ...placeOf(memory), [verdict]: ids } }));
}

/** Refused if the memory isn't the one that was shown any more. */
export function editMemory(memory: MemoryShown, document: string, text: string): Promise<Result<unknown>> {
  const body = { ...placeOf(memory), document, text, seen_seq: memory.last_seq ?? 0 };
  return changed(ask("PUT", "/v1/memory", { body }));
}

export function rollBackMemory(memory: MemoryShown, toSeq: number): Promise<Result<unknown>> {
  const body = { ...placeOf(memory), to_seq: toSeq, seen_seq: memory.last_seq ?? 0 };
  return changed(ask("POST", "/v1/memory/rollback", { body }));
}

/** Takes back one change; later ones stay. */
export function undoChange(memory: MemoryShown, changeId: string): Promise<Result<unknown>> {
  return changed(ask("POST", "/v1/memory/rollback", { body: { ...placeOf(memory), change_id: changeId } }));
}

export function forgetMemory(memory: MemoryShown, text: string): Promise<Result<MemoryForgotten>> {
  return changed(ask("POST", "/v1/memory/forget", { body: { ...placeOf(memory), text } }));
}

export async function memoryHistory(memory: MemoryShown): Promise<Result<readonly MemoryChangeShown[]>> {
  const result = await ask<MemoryHistory>(
    "GET",
    `/v1/memory/history?${new URLSearchParams(placeOf(memory))}`,
  );
  return result.ok ? { ok: true, value: result.value.data } : result;
}
