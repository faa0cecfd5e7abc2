/** What components read and call: the page's signals and actions in one place. */

export type { Result, Trouble } from "./api.ts";
export { blobUrl } from "./api.ts";
export type { ChildShown, GrantShown, OpenAsk, RulePreview, SessionShown, Started } from "./bodies.ts";
export * from "./features/memory/memories.ts";
export * from "./state/actions.ts";
export { fetchFile, ticketed } from "./state/asking.ts";
export * from "./state/asks.ts";
export * from "./state/family.ts";
export * from "./state/inbox.ts";
export * from "./state/list.ts";
export { changeMode, modeNow } from "./state/modes.ts";
export type * from "./state/page_state.ts";
export * from "./state/sending.ts";
export * from "./state/settings.ts";
export * from "./state/signals.ts";
export { signIn, start } from "./state/start.ts";
export * from "./state/versions.ts";
export type * from "./view/entries.ts";
export type { Phase, RunStatus, RunView, Tally } from "./view/runs.ts";
export { statusOf } from "./view/runs.ts";
