/** The servers that share one database: where each is, what it works on, and whether it is alive. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../frame/panels.tsx";
import type { JSX } from "preact";
import type { NodeShown } from "../bodies.ts";
import { grouped, moment } from "../format.ts";
import { Dialog } from "../frame/dialog.tsx";
import { closeDialog } from "../frame/ui.ts";
import { harmless } from "../markdown/safe.ts";
import { Problem } from "../talk/problem.tsx";
import { leaseOf, sharedWith } from "./node_words.ts";
import { useRefreshed } from "./refreshed.ts";
import { readNodes } from "./requests.ts";

const EVERY_MS = 2000;

export function NodesDialog(): JSX.Element {
  const { value, atMs, trouble } = useRefreshed("nodes", readNodes, EVERY_MS);
  return (
    <Dialog title="Servers" onClose={() => closeDialog("nodes")}>
      <div class="wide-panel">
        <p class="fine muted">
          The servers that share this database. If one stops, the others continue its runs.
        </p>
        <Problem
          words={trouble && (value === null ? trouble : `${trouble} This is how it was at ${moment(atMs)}.`)}
        />
        {value === null && !trouble ? (
          <p class="muted">
            <span class="spinner" /> Loading
          </p>
        ) : null}
        <ul class="targets" aria-label="Servers">
          {(value ?? []).map((node) => (
            <Node key={node.name} node={node} />
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function Node({ node }: { readonly node: NodeShown }): JSX.Element {
  const lease = leaseOf(node);
  const volumes = sharedWith(node);
  return (
    <li class="target">
      <header class="target-head">
        <span class={`health ${lease.kind}`} aria-hidden="true" />
        <h3>
          {harmless(node.name)}
          {node.is_this ? <span class="fine muted">answers this page now</span> : null}
        </h3>
      </header>
      <dl class="facts">
        <div>
          <dt>Address</dt>
          <dd>{harmless(node.url) || "None configured"}</dd>
        </div>
        <div>
          <dt>Sessions</dt>
          <dd>{node.sessions === 0 ? "None active" : `${grouped(node.sessions)} active`}</dd>
        </div>
        <div>
          <dt>Lease</dt>
          <dd class={lease.kind === "good" ? "" : "warned"}>{lease.words}</dd>
        </div>
        {volumes === "" ? null : (
          <div>
            <dt>Volumes</dt>
            <dd>{harmless(volumes)}</dd>
          </div>
        )}
      </dl>
    </li>
  );
}
