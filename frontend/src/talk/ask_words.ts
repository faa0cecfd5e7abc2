/** What people read about an ask; pure. */
import type { IconName } from "../icons.tsx";
import type { AskKind } from "../view/asks.ts";
import type { AskEntry } from "../view/entries.ts";
import { oneLine } from "./tool_words.ts";

export const ASKS: Readonly<Record<AskKind, { title: string; icon: IconName; open: string }>> = {
  approval: { title: "Approval needed", icon: "hand", open: "Waiting for your approval" },
  question: { title: "Question for you", icon: "question", open: "Waiting for your answer" },
};

const VERDICTS: Readonly<Record<string, string>> = {
  once: "Allowed once",
  session: "Allowed in this chat",
  always: "Always allowed",
  deny: "Denied",
};

/** The verdict, and for one that lasts what it covers. */
function verdictWords({ answer, width }: AskEntry): string {
  const words = VERDICTS[answer] ?? answer;
  if (answer !== "session" && answer !== "always") return words;
  return `${words}, ${width === "similar" ? "including similar ones" : "exact match only"}`;
}

/** What it asks, as a screen reader says it. */
export function askWords(ask: AskEntry): string {
  return `${ASKS[ask.ask].title}: ${ask.action?.summary ?? ask.text}`;
}

/** The outcome as one line. */
export function askLine(ask: AskEntry): string {
  switch (ask.state) {
    case "open":
      return ASKS[ask.ask].open;
    case "expired":
      return "No one answered in time";
    case "withdrawn":
      return "No longer needed";
    case "answered": {
      const words = ask.ask === "approval" ? verdictWords(ask) : `Answered: ${oneLine(ask.answer)}`;
      return ask.reason ? `${words}: ${oneLine(ask.reason)}` : words;
    }
  }
}
