/** The permission mode in the composer: what needs the person's approval, and a way to change it. */
import type { JSX } from "preact";
import { changeMode, modeNow, server } from "../state.ts";
import type { Acting } from "./acting.ts";

const MODES: readonly (readonly [mode: string, words: string, title: string])[] = [
  ["plan", "Plan", "The agent only reads until you accept its plan"],
  ["ask", "Ask", "Every change needs your approval"],
  ["edits", "Edits", "Edits of workspace files that undo covers need no approval"],
  ["workspace", "Workspace", "Anything that the sandbox contains needs no approval"],
  ["unattended", "Unattended", "Anything that needs approval is denied"],
];

export function PermissionMode({ acting }: { readonly acting: Acting }): JSX.Element | null {
  const now = modeNow();
  if (now === "") return null;
  const allowed = server.value?.modes ?? [];
  const shown = MODES.filter(([mode]) => mode === now || allowed.includes(mode));
  const title = MODES.find(([mode]) => mode === now)?.[2] ?? "";
  return (
    <label class={`chip pick${now === "workspace" ? " tone-warn" : ""}`} title={`Permission mode: ${title}`}>
      <span class="unseen">Permission mode</span>
      <select
        value={now}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          event.currentTarget.value = now; // until the log says so
          void acting.act(() => changeMode(chosen));
        }}
      >
        {shown.map(([mode, words, about]) => (
          <option key={mode} value={mode} title={about}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
