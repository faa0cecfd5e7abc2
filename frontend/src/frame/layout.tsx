/** The page's parts and where they stand: list, chat, timeline. */
import type { JSX } from "preact";
import { session } from "../state.ts";
import { useParts } from "../talk/fetched.ts";
import { Talk } from "../talk/talk.tsx";
import { listShown } from "./commands.ts";
import { Modal } from "./dialog.tsx";
import { Header } from "./header.tsx";
import { Panel } from "./panel.tsx";
import { Sidebar } from "./sidebar.tsx";
import { Toasts } from "./toasts.tsx";
import {
  closeDialog,
  closeFiles,
  dialog,
  drawerOpen,
  filesShown,
  findHint,
  focusComposer,
  isNarrow,
  timelineOpen,
} from "./ui.ts";

const DIALOGS = {
  settings: "SettingsDialog",
  help: "KeyboardHelp",
  context: "ContextDialog",
  options: "OptionsDialog",
  inbox: "Inbox",
  targets: "TargetsDialog",
  usage: "UsageDialog",
  channels: "ChannelsDialog",
  nodes: "NodesDialog",
  memory: "MemoryDialog",
  skills: "SkillsDialog",
  automations: "AutomationsDialog",
} as const;

export function Layout(): JSX.Element {
  const withFiles = filesShown() && session.value !== null;
  const withTimeline = !withFiles && timelineOpen.value && session.value !== null;
  const opened = dialog.value;
  const parts = useParts(findHint.value !== "");
  return (
    <div class="layout">
      <button type="button" class="skip" onClick={focusComposer}>
        Skip to the message field
      </button>
      {isNarrow.value ? <Drawer /> : listShown() ? <Sidebar /> : null}
      <main class="main" aria-label="Chat">
        <Header />
        {parts && <parts.FindHint />}
        <Talk />
      </main>
      {withFiles ? <Panel name="FilesPlace" onClose={closeFiles} /> : null}
      {withTimeline ? <Panel name="TimelinePanel" onClose={closeTimeline} /> : null}
      {drawerOpen.value ? null : <Toasts />}
      {opened === null ? null : (
        <Panel key={opened} name={DIALOGS[opened]} onClose={() => closeDialog(opened)} />
      )}
    </div>
  );
}

/** The browser tells of the closing a moment later, when the window may be wide: the list's place there stays. */
function closeDrawer(): void {
  drawerOpen.value = false;
}

function closeTimeline(): void {
  timelineOpen.value = false;
}

/** The list on a narrow screen: over the page, with the toasts, since an undo must be reachable. */
function Drawer(): JSX.Element | null {
  if (!drawerOpen.value) return null;
  return (
    <Modal class="drawer" aria-label="Chats" onClose={closeDrawer}>
      <Sidebar />
      <Toasts />
    </Modal>
  );
}
