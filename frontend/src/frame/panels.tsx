/** What opens over or beside the chat: one chunk, which is no part of the first load; what few people open has its own. */
import { later } from "./later.tsx";

export { ContextDialog } from "../talk/context_dialog.tsx";
export { OptionsDialog } from "../talk/options_dialog.tsx";
export { FilesPlace } from "./files_place.tsx";
export { Inbox } from "./inbox.tsx";
export { KeyboardHelp } from "./keyboard_help.tsx";
export { SettingsDialog } from "./settings.tsx";
export { SignIn } from "./sign_in.tsx";
export { TimelinePanel } from "./timeline_panel.tsx";

export const MemoryDialog = later(
  "memory",
  async () => (await import("../features/memory/memory_dialog.tsx")).MemoryDialog,
);
export const AutomationsDialog = later(
  "automations",
  async () => (await import("../features/automations/automations_dialog.tsx")).AutomationsDialog,
);
export const ChannelsDialog = later(
  "channels",
  async () => (await import("../features/channels/channels_dialog.tsx")).ChannelsDialog,
);
export const NodesDialog = later(
  "nodes",
  async () => (await import("../server_panels/nodes_dialog.tsx")).NodesDialog,
);
export const SkillsDialog = later(
  "skills",
  async () => (await import("../features/skills/skills_dialog.tsx")).SkillsDialog,
);
export const TargetsDialog = later(
  "targets",
  async () => (await import("../server_panels/targets_dialog.tsx")).TargetsDialog,
);
export const UsageDialog = later(
  "usage",
  async () => (await import("../features/usage_reports/usage_dialog.tsx")).UsageDialog,
);
