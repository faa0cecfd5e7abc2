/** Where a chat comes from, if a person didn't begin it on the page or in the terminal; pure. */

/** By the source of the session, as people call it. */
const ORIGINS: Readonly<Record<string, string>> = {
  telegram: "Telegram",
  slack: "Slack",
  discord: "Discord",
  automation: "Automation",
};

/** The name of the platform, or "Automation"; "" if the chat is one's own. */
export function originOf(row: { readonly source: string } | null | undefined): string {
  return ORIGINS[row?.source ?? ""] ?? "";
}
