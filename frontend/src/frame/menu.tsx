/** A menu that drops from a button: arrow keys move, a letter jumps, Escape gives the focus back. */
import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "../icons.tsx";

export interface MenuItem {
  readonly icon: IconName;
  readonly words: string;
  readonly act: () => void;
  readonly danger?: boolean;
}

interface MenuProps {
  readonly label: string;
  readonly anchor: RefObject<HTMLElement | null>;
  readonly items: readonly MenuItem[];
  readonly onClose: () => void;
}

/** A button's menu: whether it is open, and what the button needs for it. */
export function useMenu<Button extends HTMLElement>() {
  const anchor = useRef<Button>(null);
  const [open, setOpen] = useState(false);
  // A press on the button closes an open menu before the click comes, which must not open it again.
  const wasOpen = useRef(false);
  const button = {
    ref: anchor,
    "aria-haspopup": "menu" as const,
    "aria-expanded": open,
    onPointerDown: () => {
      wasOpen.current = open;
    },
    onClick: (event: MouseEvent) => {
      // A click by the keyboard has no press before it.
      setOpen(event.detail === 0 || !wasOpen.current);
    },
  };
  return { anchor, open, setOpen, button };
}

const MARGIN_PX = 8;

export function Menu({ label, anchor, items, onClose }: MenuProps): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = ref.current;
    if (!menu) return;
    menu.showPopover();
    place(menu, anchor.current);
    menu.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }, [anchor]);

  const close = (): void => {
    anchor.current?.focus();
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const buttons = [...(ref.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const next = moved(event.key, buttons, buttons.indexOf(document.activeElement as HTMLElement));
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next) next.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={ref}
      class="menu"
      popover="auto"
      role="menu"
      tabIndex={-1}
      aria-label={label}
      onKeyDown={onKeyDown}
      // The browser reports a closed popover a few frames late: by then this menu may be gone and another one open.
      onToggle={({ newState, currentTarget }) =>
        newState === "closed" && currentTarget.isConnected && onClose()
      }
    >
      {items.map((item) => (
        <button
          key={item.words}
          type="button"
          role="menuitem"
          tabIndex={-1}
          class={item.danger ? "menu-item danger" : "menu-item"}
          onClick={(event) => {
            event.stopPropagation();
            close();
            item.act();
          }}
        >
          <Icon name={item.icon} />
          {item.words}
        </button>
      ))}
    </div>
  );
}

function moved(key: string, buttons: readonly HTMLElement[], at: number): HTMLElement | undefined {
  const last = buttons.length - 1;
  switch (key) {
    case "ArrowDown":
      return buttons[at < last ? at + 1 : 0];
    case "ArrowUp":
      return buttons[at > 0 ? at - 1 : last];
    case "Home":
      return buttons[0];
    case "End":
      return buttons[last];
    default: {
      const after = [...buttons.slice(at + 1), ...buttons.slice(0, at + 1)];
      return key.length === 1
        ? after.find((button) => button.textContent?.toLowerCase().startsWith(key.toLowerCase()))
        : undefined;
    }
  }
}

/** Below the button, or above it where there is no room; never past the edge of the window. */
function place(menu: HTMLElement, anchor: HTMLElement | null): void {
  const at = anchor?.getBoundingClientRect() ?? new DOMRect(MARGIN_PX, MARGIN_PX, 0, 0);
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + 4;
  const top = below + height + MARGIN_PX <= innerHeight ? below : Math.max(MARGIN_PX, at.top - height - 4);
  const left = Math.min(at.left, innerWidth - width - MARGIN_PX);
  menu.style.top = `${top}px`;
  menu.style.left = `${Math.max(MARGIN_PX, left)}px`;
}
