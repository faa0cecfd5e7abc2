/** A dialog that lists what the server says now, with a word about why the list is old or not there yet. */
import type { ComponentChildren, JSX } from "preact";
import { moment } from "../format.ts";
import { Dialog } from "../frame/dialog.tsx";
import { Problem } from "../talk/problem.tsx";
import type { Refreshed } from "./refreshed.ts";

interface RefreshedDialogProps {
  readonly title: string;
  readonly about: string;
  readonly refreshed: Refreshed<unknown>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function RefreshedDialog({
  title,
  about,
  refreshed: { value, atMs, trouble },
  onClose,
  children,
}: RefreshedDialogProps): JSX.Element {
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="wide-panel">
        <p class="fine muted">{about}</p>
        <Problem words={trouble && (value === null ? trouble : `${trouble} Last updated ${moment(atMs)}.`)} />
        {value === null && !trouble ? (
          <p class="muted">
            <span class="spinner" /> Loading
          </p>
        ) : null}
        {children}
      </div>
    </Dialog>
  );
}
