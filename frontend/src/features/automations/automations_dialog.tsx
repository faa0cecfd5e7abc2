/** What the agent does by itself: schedules and webhooks, with what became of each. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../../frame/panels.tsx";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { TriggerShown } from "../../bodies.ts";
import { closeDialog } from "../../frame/ui.ts";
import { Icon } from "../../icons.tsx";
import { useRefreshed } from "../../server_panels/refreshed.ts";
import { RefreshedDialog } from "../../server_panels/refreshed_dialog.tsx";
import { readTriggers } from "./requests.ts";
import { type Revealed, SecretCard } from "./secret_card.tsx";
import { TriggerCard } from "./trigger_card.tsx";
import { TriggerForm } from "./trigger_form.tsx";

const EVERY_MS = 3000;

export function AutomationsDialog(): JSX.Element {
  const triggers = useRefreshed("triggers", readTriggers, EVERY_MS);
  const [edited, setEdited] = useState<TriggerShown | "new" | null>(null);
  const [revealed, setRevealed] = useState<Revealed | null>(null);
  const saved = (secret: Revealed | null): void => {
    setEdited(null);
    setRevealed(secret);
    triggers.reload();
  };
  return (
    <RefreshedDialog
      title="Automations"
      about="Runs started by a schedule or webhook. Missed runs are listed too."
      refreshed={triggers}
      onClose={() => closeDialog("automations")}
    >
      {revealed === null ? null : <SecretCard revealed={revealed} onDone={() => setRevealed(null)} />}
      {edited === null ? (
        <button type="button" class="button small" onClick={() => setEdited("new")}>
          <Icon name="plus" />
          New automation
        </button>
      ) : (
        <TriggerForm
          key={edited === "new" ? "new" : edited.id}
          trigger={edited === "new" ? null : edited}
          onCancel={() => setEdited(null)}
          onSaved={saved}
        />
      )}
      {triggers.value?.length === 0 && edited === null ? (
        <p class="muted">
          None yet. You can also create one in a chat: “every weekday at 8, summarize what changed”.
        </p>
      ) : null}
      <ul class="targets" aria-label="Automations">
        {(triggers.value ?? []).map((trigger) => (
          <TriggerCard
            key={trigger.id}
            trigger={trigger}
            onEdit={() => setEdited(trigger)}
            onRevealed={setRevealed}
            onChanged={triggers.reload}
          />
        ))}
      </ul>
    </RefreshedDialog>
  );
}
