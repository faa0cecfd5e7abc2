/** What the Skills panel asks the server. */
import type { Result } from "../../api.ts";
import type { SkillList, SkillShown } from "../../bodies.ts";
import { ask } from "../../state/asking.ts";

const inWorkspace = (workspace: string): string =>
  workspace ? `?${new URLSearchParams({ workspace })}` : "";

export function readSkills(workspace: string): Promise<Result<SkillList>> {
  return ask("GET", `/v1/skills${inWorkspace(workspace)}`);
}

export function readSkill(name: string, workspace: string): Promise<Result<SkillShown>> {
  return ask("GET", `/v1/skills/${encodeURIComponent(name)}${inWorkspace(workspace)}`);
}
