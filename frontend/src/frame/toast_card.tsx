/** A toast: what was just done, and a way to undo it. It stays while someone points at it. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { dismiss, type Toast, takeBack } from "./ui.ts";

const SHOWN_MS = 12_000;

export function ToastCard({ toast }: { toast: Toast }): JSX.Element {
  const [held, setHeld] = useState(false);
  useEffect(() => {
    if (held) return;
    const timer = setTimeout(() => dismiss(toast.id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [held, toast]);
  return (
    <div
      class="toast"
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
      onFocusIn={() => setHeld(true)}
      onFocusOut={() => setHeld(false)}
    >
      <span class="toast-words">
        {toast.words}
        {toast.trouble ? <span class="problem"> {toast.trouble}</span> : null}
      </span>
      <button type="button" class="button quiet" onClick={() => takeBack(toast)}>
        <Icon name="undo" />
        Undo
      </button>
      <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>
        <Icon name="close" />
      </button>
    </div>
  );
}
