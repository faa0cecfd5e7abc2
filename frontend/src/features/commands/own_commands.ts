/** Commands that users write as files: their names and words, and the messages that they stand for. */
import { useEffect, useState } from "preact/hooks";
import type { CommandExpanded, CommandList } from "../../bodies.ts";
import { ask } from "../../state/asking.ts";
import type { SendMode } from "../../state/page_state.ts";
import { has, saveDraft, send, session, settings } from "../../state.ts";
import { leftOut, takeParts } from "../../talk/attachments.ts";

type Words = readonly [command: string, words: string];

const workspaceHere = (): string => session.value?.row.value?.workspace ?? "";

/** The commands of the open chat's workspace and the user's own, once someone asks. */
export function useOwnCommands(isAsked: boolean): readonly Words[] {
  const [found, setFound] = useState<readonly Words[]>([]);
  const workspace = workspaceHere();
  useEffect(() => {
    if (!isAsked || !has("commands")) return;
    let isOver = false;
    const query = new URLSearchParams({ workspace });
    void ask<CommandList>("GET", `/v1/commands?${query}`).then((result) => {
      if (!result.ok || isOver) return;
      setFound(
        result.value.data.map((one) => [
          `/${one.name}`,
          [one.argument_hint, one.description].filter((words) => words !== "").join(": "),
        ]),
      );
    });
    return () => {
      isOver = true;
    };
  }, [isAsked, workspace]);
  return found;
}

let isExpanding = false;

/** Sends the message of the user's command; false if there is no such command. */
export async function sendOwnCommand(command: string, rest: string, mode: SendMode): Promise<boolean> {
  if (isExpanding) return true;
  if (!has("commands")) return false;
  const here = session.value;
  isExpanding = true;
  const result = await ask<CommandExpanded>(
    "POST",
    `/v1/commands/${encodeURIComponent(command.slice(1))}/expand`,
    { body: { arguments: rest, workspace: workspaceHere() } },
  );
  isExpanding = false;
  // the text stays where it was written
  if (session.value !== here) return true;
  if (!result.ok) {
    if (result.trouble.status === 404) return false;
    leftOut.value = result.trouble.message;
    return true;
  }
  const { text, model, plan_first } = result.value;
  saveDraft("");
  void send(text, takeParts(), mode, here, plan_first ? "plan" : "", model || settings.value.model);
  return true;
}
