/** What opens over or beside the chat: one chunk, which is no part of the first load. */
export { FilesPlace } from "./files_place.tsx";
export { Inbox } from "./inbox.tsx";
export { KeyboardHelp } from "./keyboard_help.tsx";
export { SettingsDialog } from "./settings.tsx";
export { TimelinePanel } from "./timeline_panel.tsx";
