/** A rule that spares people a question: what exactly it allows. */
import type { JSX } from "preact";
import type { GrantRule } from "../events.ts";
import { exact } from "../markdown/safe.ts";

export function RuleText({ rule }: { readonly rule: GrantRule }): JSX.Element {
  return (
    <dl class="rule">
      {partsOf(rule).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <code>{exact(value)}</code>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function partsOf({ tool, argv, paths, host }: GrantRule): readonly (readonly [string, string])[] {
  const parts = [
    ["Tool", tool],
    ["Command", (argv ?? []).map(quoted).join(" ")],
    ["Paths", (paths ?? []).join(", ")],
    ["Host", host ?? ""],
  ] as const;
  return parts.filter(([, value]) => value !== "");
}

/** A word of a command as a shell would have to be given it, so that two words never look like one. */
function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
