/** One chat in the list: its title, what goes on in it, and its menu. */
import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ago, moment } from "../format.ts";
import { Icon } from "../icons.tsx";
import { type SessionShown, session } from "../state.ts";
import { useParts } from "../talk/fetched.ts";
import { addressOf, linkOf } from "./address.ts";
import { show } from "./commands.ts";
import { Menu, useMenu } from "./menu.tsx";
import { originOf } from "./origin.ts";
import { itemsFor } from "./session_menu.ts";
import { calmNowMs, isRenaming, renaming } from "./ui.ts";

export const UNTITLED = "New chat";

export function titleOf(row: SessionShown): string {
  return row.title || row.preview || UNTITLED;
}

export function SessionRow({ row }: { row: SessionShown }): JSX.Element {
  const current = session.value?.id === row.id;
  const [trouble, setTrouble] = useState("");
  const classes = ["row", current ? "current" : "", row.unread && !current ? "unread" : ""];
  const parts = useParts(isRenaming(row.id, "list"));
  return (
    <li ref={useFocusKept(row.id)} class={classes.join(" ")}>
      {parts ? (
        <parts.Rename row={row} onTrouble={setTrouble} />
      ) : (
        <RowLine row={row} current={current} onTrouble={setTrouble} />
      )}
      {trouble ? (
        <p class="problem row-problem" role="alert">
          {trouble}
        </p>
      ) : null}
    </li>
  );
}

/** A row that had the focus has it again in another group, where it is drawn anew; a row that is gone leaves it to the next. */
function useFocusKept(sessionId: string): RefObject<HTMLLIElement | null> {
  const row = useRef<HTMLLIElement>(null);
  useLayoutEffect(
    () => () => {
      const focused = document.activeElement;
      if (!row.current?.contains(focused)) return;
      const isMenu = focused?.matches(".row-menu, [role=menuitem]");
      const links = [...document.querySelectorAll<HTMLElement>("a.row-link")];
      const at = links.findIndex((link) => row.current?.contains(link));
      const others = [links[at + 1], links[at - 1]];
      // Before the next key is heard, and only if nothing else has the focus by then.
      queueMicrotask(() => {
        if (document.activeElement !== document.body) return;
        const again = linkOf(sessionId);
        const button = isMenu ? again?.parentElement?.querySelector<HTMLElement>(".row-menu") : null;
        (button ?? again ?? others.find((link) => link?.isConnected))?.focus();
      });
    },
    [],
  );
  return row;
}

interface LineProps {
  readonly row: SessionShown;
  readonly current: boolean;
  readonly onTrouble: (words: string) => void;
}

function RowLine({ row, current, onTrouble }: LineProps): JSX.Element {
  const menu = useMenu<HTMLButtonElement>();
  const title = titleOf(row);
  return (
    <>
      <a
        class="row-link"
        href={addressOf(row.id)}
        aria-current={current ? "page" : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
          event.preventDefault();
          show(row.id);
        }}
        onContextMenu={(event) => {
          event.preventDefault();
          menu.setOpen(true);
        }}
        onKeyDown={(event) => {
          if (event.key === "F2") renaming.value = { id: row.id, place: "list" };
        }}
      >
        <span class="row-title" title={title}>
          {title}
        </span>
        <Origin row={row} />
        <RowState row={row} current={current} />
      </a>
      <button type="button" class="icon-button row-menu" aria-label={`Options for ${title}`} {...menu.button}>
        <Icon name="more" />
      </button>
      {menu.open ? (
        <Menu
          label={title}
          anchor={menu.anchor}
          items={itemsFor(row, "list", onTrouble)}
          onClose={() => menu.setOpen(false)}
        />
      ) : null}
    </>
  );
}

/** Where it comes from, unless it is one's own. */
export function Origin({ row }: { row: SessionShown }): JSX.Element | null {
  const from = originOf(row);
  return from ? <span class="origin">{from}</span> : null;
}

/** What goes on in it: needs you, then running, then news that nobody has read; at rest, when it was. */
function RowState({ row, current }: { row: SessionShown; current: boolean }): JSX.Element {
  const atMs = row.updated_at * 1000;
  if (row.open_asks > 0) {
    return (
      <span class="row-state badge" title="Needs your answer">
        <span class="unseen">needs you: </span>
        {row.open_asks}
      </span>
    );
  }
  if (row.open_runs > 0 && row.begun_runs === 0) {
    return (
      <span class="row-state waits" title="Messages are waiting">
        <Icon name="pause" />
        <span class="unseen">waiting</span>
      </span>
    );
  }
  if (row.open_runs > 0) {
    return (
      <span class="row-state" title="Running">
        <span class="spinner" />
        <span class="unseen">running</span>
      </span>
    );
  }
  return (
    <span class="row-state" title={moment(atMs)}>
      <time dateTime={new Date(atMs).toISOString()}>{ago(atMs, calmNowMs.value)}</time>
      {row.unread && !current ? (
        <span class="dot">
          <span class="unseen">unread</span>
        </span>
      ) : null}
    </span>
  );
}
