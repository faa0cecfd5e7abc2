/** The chat platforms on which people talk to the agent: whether each works, who may talk, and what happened. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../../frame/panels.tsx";
import type { JSX } from "preact";
import { closeDialog } from "../../frame/ui.ts";
import { useRefreshed } from "../../server_panels/refreshed.ts";
import { RefreshedDialog } from "../../server_panels/refreshed_dialog.tsx";
import { ChannelCard } from "./channel_card.tsx";
import { readChannels } from "./requests.ts";

const EVERY_MS = 2000;

export function ChannelsDialog(): JSX.Element {
  const channels = useRefreshed("channels", readChannels, EVERY_MS);
  return (
    <RefreshedDialog
      title="Channels"
      about="Chat platforms connected to this agent. No one has access until you grant it."
      refreshed={channels}
      onClose={() => closeDialog("channels")}
    >
      {channels.value?.length === 0 ? <Setup /> : null}
      <ul class="targets" aria-label="Channels">
        {(channels.value ?? []).map((channel) => (
          <ChannelCard key={channel.name} channel={channel} onChanged={channels.reload} />
        ))}
      </ul>
    </RefreshedDialog>
  );
}

const EXAMPLE = `[[channels]]
name = "tg"
kind = "telegram"  # or slack, or discord
token = "env:TELEGRAM_BOT_TOKEN"`;

/** How to get the first channel. */
function Setup(): JSX.Element {
  return (
    <>
      <p class="muted">
        None yet. Add one to <code>~/.config/holdfast/holdfast.toml</code>, such as this, and restart the
        server. If you keep your settings elsewhere, <code>holdfast config check</code> names the file.
      </p>
      <pre class="channel-example">
        <code>{EXAMPLE}</code>
      </pre>
      <p class="muted">
        <code>docs/channels.md</code> explains how to get a token for each platform.
      </p>
    </>
  );
}
