/** The head of a chat: its title, the connection state, and the timeline switch. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ParentPlace } from "../features/delegation/agent_places.tsx";
import { Icon, type IconName } from "../icons.tsx";
import { hint } from "../keys.ts";
import { session, waitingElsewhere } from "../state.ts";
import { useParts } from "../talk/fetched.ts";
import { begin, listShown, showList } from "./commands.ts";
import { ConnectionState } from "./connection_state.tsx";
import { Menu, useMenu } from "./menu.tsx";
import { itemsFor } from "./session_menu.ts";
import {
  FILES_SWITCH,
  filesShown,
  isMac,
  isRenaming,
  TIMELINE_SWITCH,
  timelineOpen,
  toggleFiles,
  toggleTimeline,
} from "./ui.ts";

export function Header(): JSX.Element {
  return (
    <header class="header">
      {listShown() ? null : <ListButton />}
      <ParentPlace />
      <Title />
      <span class="spread" />
      <ConnectionState />
      {isShown() ? (
        <>
          <PanelButton command="files" words="Files" icon="folder" id={FILES_SWITCH} />
          <PanelButton command="timeline" words="Timeline" icon="timeline" id={TIMELINE_SWITCH} />
        </>
      ) : null}
      {listShown() ? null : (
        <button
          type="button"
          class="icon-button"
          aria-label="New chat"
          title={`New chat (${hint("new", isMac)})`}
          onClick={begin}
        >
          <Icon name="compose" />
        </button>
      )}
    </header>
  );
}

/** Whether there is a chat to speak of: not the start, and not one that is gone. */
function isShown(): boolean {
  const stage = session.value?.stage.value;
  return stage !== undefined && stage !== "gone" && stage !== "failed";
}

function ListButton(): JSX.Element {
  const waiting = waitingElsewhere.value;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={waiting ? `Show chats: ${waiting} need you` : "Show chats"}
      title={`Show chats (${hint("sidebar", isMac)})`}
      onClick={showList}
    >
      <Icon name="menu" />
      {waiting ? (
        <span class="badge corner" aria-hidden="true">
          {waiting}
        </span>
      ) : null}
    </button>
  );
}

interface PanelButtonProps {
  readonly command: "files" | "timeline";
  readonly words: string;
  readonly icon: IconName;
  readonly id: string;
}

function PanelButton({ command, words, icon, id }: PanelButtonProps): JSX.Element {
  const isFiles = command === "files";
  return (
    <button
      type="button"
      class="icon-button"
      id={id}
      aria-label={words}
      aria-pressed={isFiles ? filesShown() : timelineOpen.value && !filesShown()}
      title={`${words} (${hint(command, isMac)})`}
      onClick={isFiles ? toggleFiles : toggleTimeline}
    >
      <Icon name={icon} />
    </button>
  );
}

function Title(): JSX.Element | null {
  const current = session.value;
  const menu = useMenu<HTMLButtonElement>();
  const [trouble, setTrouble] = useState("");
  const row = current?.row.value;
  const parts = useParts(!!row && isRenaming(row.id, "head"));
  if (!current || !isShown()) return null;
  const title = current.title.value || "New chat";
  if (!row) return <h1 class="title">{title}</h1>;
  if (parts) return <parts.Rename row={row} onTrouble={setTrouble} />;
  return (
    <>
      <h1 class="title">
        <button type="button" class="title-button" {...menu.button}>
          <span class="title-words">{title}</span>
          <Icon name="chevron" />
        </button>
      </h1>
      {row.archived ? <span class="tag">Archived</span> : null}
      {trouble ? (
        <p class="problem" role="alert">
          {trouble}
        </p>
      ) : null}
      {menu.open ? (
        <Menu
          label={title}
          anchor={menu.anchor}
          items={itemsFor(row, "head", setTrouble)}
          onClose={() => menu.setOpen(false)}
        />
      ) : null}
    </>
  );
}
