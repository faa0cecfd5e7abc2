/** The chat platforms on which people talk to the agent: whether each works, who may talk, and what happened. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../frame/panels.tsx";
import type { JSX } from "preact";
import { closeDialog } from "../frame/ui.ts";
import { useRefreshed } from "../server_panels/refreshed.ts";
import { RefreshedDialog } from "../server_panels/refreshed_dialog.tsx";
import { ChannelCard } from "./channel_card.tsx";
import { readChannels } from "./requests.ts";

const EVERY_MS = 2000;

export function ChannelsDialog(): JSX.Element {
  const channels = useRefreshed("channels", readChannels, EVERY_MS);
  return (
    <RefreshedDialog
      title="Channels"
      about="Where people talk to the agent besides this page. Nobody may talk until you let them in."
      refreshed={channels}
      onClose={() => closeDialog("channels")}
    >
      {channels.value?.length === 0 ? (
        <p class="muted">
          None yet. Add a <code>[[channels]]</code> section to holdfast.toml, and restart the server.
        </p>
      ) : null}
      <ul class="targets" aria-label="Channels">
        {(channels.value ?? []).map((channel) => (
          <ChannelCard key={channel.name} channel={channel} onChanged={channels.reload} />
        ))}
      </ul>
    </RefreshedDialog>
  );
}
