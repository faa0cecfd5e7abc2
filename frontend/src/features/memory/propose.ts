/** Text after # becomes a proposed memory. */
import { newId } from "../../api.ts";
import { ask } from "../../state/asking.ts";
import { saveDraft, session } from "../../state.ts";
import { leftOut } from "../../talk/attachments.ts";
import { memoryIn } from "../../talk/marked_words.ts";
import { loadMemories } from "./memories.ts";

/** Proposes it; the text stays where it was written if that fails. */
export async function proposeMemory(words: string): Promise<void> {
  const here = session.value;
  const found = memoryIn(words);
  if (found === null) return;
  const workspace = here?.row.value?.workspace;
  const body = { ...found, ...(workspace ? { workspace } : {}), ...(here ? { session_id: here.id } : {}) };
  const headers = { "Idempotency-Key": newId("mem_") };
  const result = await ask("POST", "/v1/memory/propose", { body, headers });
  if (session.value !== here) return;
  if (!result.ok) {
    leftOut.value = result.trouble.message;
    return;
  }
  saveDraft("");
  await loadMemories();
}
