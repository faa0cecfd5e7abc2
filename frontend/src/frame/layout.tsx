/** The page's parts and where they stand: list, chat, timeline. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { session } from "../state.ts";
import { Talk } from "../talk/talk.tsx";
import { hideList, listShown } from "./commands.ts";
import { Header } from "./header.tsx";
import { KeyboardHelp } from "./keyboard_help.tsx";
import { SettingsDialog } from "./settings.tsx";
import { Sidebar } from "./sidebar.tsx";
import { TimelinePanel } from "./timeline_panel.tsx";
import { Toasts } from "./toasts.tsx";
import { dialog, drawerOpen, focusComposer, isNarrow, timelineOpen } from "./ui.ts";

export function Layout(): JSX.Element {
  const withTimeline = timelineOpen.value && session.value !== null;
  return (
    <div class="layout">
      <button type="button" class="skip" onClick={focusComposer}>
        Skip to the message field
      </button>
      {isNarrow.value ? <Drawer /> : listShown() ? <Sidebar /> : null}
      <main class="main" aria-label="Chat">
        <Header />
        <Talk />
      </main>
      {withTimeline ? <TimelinePanel /> : null}
      {drawerOpen.value ? null : <Toasts />}
      {dialog.value === "settings" ? <SettingsDialog /> : null}
      {dialog.value === "help" ? <KeyboardHelp /> : null}
    </div>
  );
}

/** The list on a narrow screen: a modal dialog, so that what it covers can not be reached by mistake. */
function Drawer(): JSX.Element | null {
  return drawerOpen.value ? <OpenDrawer /> : null;
}

function OpenDrawer(): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const element = ref.current;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class="drawer"
      aria-label="Chats"
      onClose={hideList}
      onPointerDown={(event) => event.target === ref.current && hideList()}
    >
      <Sidebar />
      {/* What lies under a modal dialog can not be reached, and an undo must be. */}
      <Toasts />
    </dialog>
  );
}
