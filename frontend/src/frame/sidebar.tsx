/** The list of chats: new, search, groups, and the way to archive and settings. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type DayGroup, dayGroup } from "../format.ts";
import { Icon, Mark } from "../icons.tsx";
import { hint } from "../keys.ts";
import {
  archivedShown,
  connection,
  loadMoreSessions,
  type SessionShown,
  search,
  session,
  sessions,
  sessionsLoaded,
  sessionsMore,
  showArchived,
  waitingForYou,
} from "../state.ts";
import { rootOf } from "../view/versions.ts";
import { begin, hideList } from "./commands.ts";
import { SearchBox, SearchHits, SearchScope } from "./search.tsx";
import { SessionRow } from "./session_row.tsx";
import { calmNowMs, dialog, isMac, isNarrow } from "./ui.ts";

export function Sidebar(): JSX.Element {
  return (
    <nav class="sidebar" aria-label="Chats">
      <div class="sidebar-head">
        <span class="brand">
          <Mark />
          Holdfast
        </span>
        <button
          type="button"
          class="icon-button"
          aria-label="Hide chats"
          title={`Hide chats (${hint("sidebar", isMac)})`}
          onClick={hideList}
        >
          <Icon name={isNarrow.value ? "close" : "panel"} />
        </button>
      </div>
      <div class="sidebar-tools">
        <button
          type="button"
          class="button new-chat"
          title={`New chat (${hint("new", isMac)})`}
          onClick={begin}
        >
          <Icon name="plus" />
          New chat
        </button>
        <InboxButton />
        <SearchBox />
        <SearchScope />
      </div>
      {search.value ? <SearchHits /> : <SessionList />}
      <SidebarFoot />
    </nav>
  );
}

/** What waits for a person in any chat; it is there only when something does. */
function InboxButton(): JSX.Element | null {
  const count = waitingForYou.value;
  if (count === 0) return null;
  return (
    <button
      type="button"
      class="button quiet inbox-button"
      title={`Inbox (${hint("inbox", isMac)})`}
      onClick={() => {
        dialog.value = "inbox";
      }}
    >
      <Icon name="hand" />
      Inbox
      <span class="spread" />
      <span class="badge">{count}</span>
      <span class="unseen">waiting for you</span>
    </button>
  );
}

function SidebarFoot(): JSX.Element {
  const archived = archivedShown.value;
  return (
    <div class="sidebar-foot">
      <button
        type="button"
        class="button quiet"
        aria-pressed={archived}
        onClick={() => showArchived(!archived)}
      >
        <Icon name={archived ? "back" : "archive"} />
        {archived ? "All chats" : "Archive"}
      </button>
      <span class="spread" />
      <button
        type="button"
        class="icon-button for-keyboards"
        aria-label="Commands and shortcuts"
        title="Commands and shortcuts (?)"
        onClick={() => {
          dialog.value = "help";
        }}
      >
        <Icon name="keyboard" />
      </button>
      <button
        type="button"
        class="icon-button"
        aria-label="Settings"
        title={`Settings (${hint("settings", isMac)})`}
        onClick={() => {
          dialog.value = "settings";
        }}
      >
        <Icon name="gear" />
      </button>
    </div>
  );
}

interface Group {
  readonly name: DayGroup | "Pinned" | "Archived";
  readonly rows: SessionShown[];
}

/** The rows in the groups that people look for them in; the order within a group is the server's. */
export function grouped(rows: readonly SessionShown[], atMs: number, archived: boolean): Group[] {
  const groups = new Map<Group["name"], SessionShown[]>();
  for (const row of rows) {
    const name = archived ? "Archived" : row.pinned ? "Pinned" : dayGroup(row.updated_at * 1000, atMs);
    const members = groups.get(name);
    if (members) members.push(row);
    else groups.set(name, [row]);
  }
  return [...groups].map(([name, members]) => ({ name, rows: members }));
}

/** One row for all versions of a chat: the open one or, if none is, the newest. */
export function withoutVersions(rows: readonly SessionShown[], openId: string): SessionShown[] {
  const shown = new Map<string, string>();
  for (const { id } of rows) if (!shown.has(rootOf(id)) || id === openId) shown.set(rootOf(id), id);
  return rows.filter(({ id }) => shown.get(rootOf(id)) === id);
}

function SessionList(): JSX.Element {
  const rows = withoutVersions(sessions.value, session.value?.id ?? "");
  const groups = grouped(rows, calmNowMs.value, archivedShown.value);
  return (
    <section class="sidebar-list" aria-label="All chats" onKeyDown={moveInList}>
      {groups.map((group) => (
        <section key={group.name} aria-label={group.name}>
          <h2 class="group-name">{group.name}</h2>
          <ul>
            {group.rows.map((row) => (
              <SessionRow key={row.id} row={row} />
            ))}
          </ul>
        </section>
      ))}
      {rows.length === 0 && sessionsLoaded.value ? (
        <p class="list-note">{archivedShown.value ? "No archived chats." : "Your chats appear here."}</p>
      ) : null}
      {sessionsMore.value ? <MoreRows /> : null}
    </section>
  );
}

/** Asks for the next page when the end of the list comes into sight. */
function MoreRows(): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const length = sessions.value.length;
  // Each new page moves the end of the list, which is then watched again; so is a connection that comes back.
  useEffect(() => {
    const watcher = new IntersectionObserver(
      (seen) => {
        if (seen.some((one) => one.isIntersecting)) void loadMoreSessions();
      },
      { rootMargin: "400px" },
    );
    if (ref.current) watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, [length, connection.value]);
  return (
    <div ref={ref} class="list-note">
      <span class="spinner" /> <span class="unseen">Loading more chats</span>
    </div>
  );
}

/** Up and down go from chat to chat, right to its menu and left back. */
function moveInList(event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.target instanceof HTMLElement)) return;
  const list = event.currentTarget as HTMLElement;
  const links = [...list.querySelectorAll<HTMLElement>("a.row-link")];
  const row = event.target.closest("li");
  const at = links.findIndex((link) => row?.contains(link));
  const next = {
    ArrowDown: links[at + 1],
    ArrowUp: links[at - 1],
    Home: links[0],
    End: links.at(-1),
    ArrowRight: row?.querySelector<HTMLElement>(".row-menu") ?? undefined,
    ArrowLeft: links[at],
  }[event.key];
  if (!next || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  next.focus();
}
