/** The Skills panel: the skills, their instructions, and agents' changes to them. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../../frame/panels.tsx";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { MemoryShown, SkillListed, SkillShown } from "../../bodies.ts";
import { Dialog } from "../../frame/dialog.tsx";
import { closeDialog } from "../../frame/ui.ts";
import { harmless } from "../../markdown/safe.ts";
import { useRead } from "../../server_panels/refreshed.ts";
import { loadMemories, may, memories, proposals, session } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { Prose } from "../../talk/prose.tsx";
import { History } from "../memory/memory_dialog.tsx";
import { Change, Proposals } from "../memory/proposals.tsx";
import { editMemory } from "../memory/requests.ts";
import { readSkill, readSkills } from "./requests.ts";

const ORIGINS: Readonly<Record<SkillListed["origin"], string>> = {
  own: "Yours",
  configured: "Configured",
  workspace: "Workspace",
  learned: "Learned",
};

export function SkillsDialog(): JSX.Element {
  const {
    value: found,
    trouble,
    again,
  } = useRead(() => readSkills(session.value?.row.value?.workspace ?? ""));
  const changes = memories.value?.data.find((one) => one.scope === "skills" && !one.chat);
  useEffect(again, [changes?.last_seq]);
  useEffect(() => void loadMemories(), []);
  const skills = found?.data ?? [];
  return (
    <Dialog title="Skills" onClose={() => closeDialog("skills")}>
      <p class="fine muted">
        Instructions the agent reads when a task needs them. Enable a workspace's skills with{" "}
        <code>holdfast skills trust</code>.
      </p>
      <Proposals open={proposals.value.filter(({ memory }) => memory.scope === "skills")} />
      {found !== null && skills.length === 0 ? <p class="muted">No skills yet.</p> : null}
      <ul class="skills" aria-label="Skills">
        {skills.map((skill) => (
          <SkillItem key={`${skill.name} ${skill.changed}`} skill={skill} changes={changes} />
        ))}
      </ul>
      {changes !== undefined && (changes.last_seq ?? 0) > 0 ? <History memory={changes} /> : null}
      {Object.entries(found?.problems ?? {}).map(([folder, why]) => (
        <p key={folder} class="fine muted">
          Not used: {harmless(folder)}: {harmless(why)}
        </p>
      ))}
      <Problem words={trouble} />
    </Dialog>
  );
}

interface SkillItemProps {
  readonly skill: SkillListed;
  readonly changes: MemoryShown | undefined;
}

function SkillItem({ skill, changes }: SkillItemProps): JSX.Element {
  const acting = useActing();
  const [shown, setShown] = useState<SkillShown | null>(null);
  const open = (): void =>
    void acting.act(async () => {
      const result = await readSkill(skill.name, session.value?.row.value?.workspace ?? "");
      if (result.ok) setShown(result.value);
      return result;
    });
  return (
    <li>
      <details onToggle={(event) => event.currentTarget.open && shown === null && open()}>
        <summary>
          <strong>{harmless(skill.name)}</strong>{" "}
          <span class="fine muted">
            {ORIGINS[skill.origin]}
            {skill.changed ? ", changed" : ""}
            {skill.trusted ? "" : ", not trusted"}
          </span>
          <p class="fine">{harmless(skill.description)}</p>
        </summary>
        {shown === null ? null : (
          <div class="skill-body">
            <Prose text={shown.body} />
            {shown.base ? (
              <details>
                <summary>Changes</summary>
                <Change before={shown.base} after={shown.body} />
              </details>
            ) : null}
            {(shown.files ?? []).length > 0 ? (
              <p class="fine muted">Files: {harmless((shown.files ?? []).join(", "))}</p>
            ) : null}
            {(skill.changed || skill.origin === "learned") && changes !== undefined && may("approve") ? (
              <button
                type="button"
                class="button small"
                disabled={acting.busy}
                onClick={() => void acting.act(() => editMemory(changes, skill.name, ""))}
              >
                {skill.changed ? "Remove the change" : "Remove"}
              </button>
            ) : null}
          </div>
        )}
      </details>
      <Problem words={acting.trouble} />
    </li>
  );
}
