/** The servers that share one database: where each is, what it works on, and whether it is alive. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../frame/panels.tsx";
import type { JSX } from "preact";
import type { NodeShown } from "../bodies.ts";
import { grouped } from "../format.ts";
import { closeDialog } from "../frame/ui.ts";
import { harmless } from "../markdown/safe.ts";
import { leaseOf, sharedWith } from "./node_words.ts";
import { useRefreshed } from "./refreshed.ts";
import { RefreshedDialog } from "./refreshed_dialog.tsx";
import { readNodes } from "./requests.ts";

const EVERY_MS = 2000;

export function NodesDialog(): JSX.Element {
  const nodes = useRefreshed("nodes", readNodes, EVERY_MS);
  return (
    <RefreshedDialog
      title="Servers"
      about="Servers sharing this database. If one stops, the others continue its runs."
      refreshed={nodes}
      onClose={() => closeDialog("nodes")}
    >
      <ul class="targets" aria-label="Servers">
        {(nodes.value ?? []).map((node) => (
          <Node key={node.name} node={node} />
        ))}
      </ul>
    </RefreshedDialog>
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
          {node.is_this ? <span class="fine muted">serves this page</span> : null}
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
