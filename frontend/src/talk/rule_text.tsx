/** A rule that spares people a question: what exactly it allows. */
import type { JSX } from "preact";
import type { GrantOffer, GrantRule, Lift } from "../events.ts";
import { exact } from "../markdown/safe.ts";

interface RuleTextProps {
  readonly rule: GrantRule;
  readonly offer?: GrantOffer;
}

export function RuleText({ rule, offer }: RuleTextProps): JSX.Element {
  return (
    <dl class="rule">
      {partsOf(rule, offer).map(([name, value]) => (
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

function partsOf(
  { tool, argv, paths, host, width, lift }: GrantRule,
  offer?: GrantOffer,
): readonly (readonly [string, string])[] {
  // an example says the tool and the exact command
  const parts = [
    ["Tool", offer ? "" : tool],
    [width ? "Commands like" : "Command", offer && !width ? "" : (argv ?? []).map(quoted).join(" ")],
    ["Allows", offer?.covers ?? ""],
    ["Still asks", offer?.asks ?? ""],
    ["Paths", (paths ?? []).join(", ")],
    ["Host", host ?? ""],
    ["Outside the sandbox", lift ? liftWords(lift) : ""],
  ] as const;
  return parts.filter(([, value]) => value !== "");
}

function liftWords({ hosts = [], network, write = [], read = [], everything }: Lift): string {
  if (everything) return "everything";
  return [
    ...(network ? ["every host"] : hosts),
    ...write.map((path) => `change ${path}`),
    ...read.map((path) => `read ${path}`),
  ].join(", ");
}

/** A word of a command as a shell would have to be given it, so that two words never look like one. */
function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
