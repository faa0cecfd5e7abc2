/** One channel: whether it works, its people, and what can be done with it. */
import type { JSX } from "preact";
import type { ChannelShown } from "../bodies.ts";
import { moment } from "../format.ts";
import { harmless } from "../markdown/safe.ts";
import { Fact } from "../server_panels/fact.tsx";
import { stopped } from "../server_panels/target_words.ts";
import { ChannelLog } from "./channel_log.tsx";
import { LettingIn } from "./letting_in.tsx";
import { People } from "./people.tsx";
import { hasPeople, platformOf, stateOf, waitingOf } from "./words.ts";

interface ChannelCardProps {
  readonly channel: ChannelShown;
  readonly onChanged: () => void;
}

export function ChannelCard({ channel, onChanged }: ChannelCardProps): JSX.Element {
  const state = stateOf(channel);
  const waiting = waitingOf(channel);
  return (
    <li class="target">
      <header class="target-head">
        <span class={`health ${state.kind}`} aria-hidden="true" />
        <h3>
          {harmless(channel.name)}
          <span class="fine muted">{harmless(platformOf(channel))}</span>
        </h3>
      </header>
      <dl class="facts">
        <Fact name="State">
          <span class={state.kind === "good" ? "" : state.kind === "silent" ? "channel-failed" : "warned"}>
            {state.words}
          </span>
          {channel.since > 0 ? <span class="muted">, since {moment(1000 * channel.since)}</span> : null}
          {channel.problem ? (
            <span class="line">
              {stopped(harmless(channel.problem))}{" "}
              {harmless(channel.hint ?? "") || "It is tried again by itself."}
            </span>
          ) : null}
        </Fact>
        {channel.node ? <Fact name="Server">{harmless(channel.node)}</Fact> : null}
        <Fact name="Waiting">
          <span class={waiting.warns ? "warned" : ""}>{waiting.words}</span>
        </Fact>
        {hasPeople(channel) ? (
          <Fact name="People">
            <People channel={channel} onChanged={onChanged} />
          </Fact>
        ) : null}
      </dl>
      {hasPeople(channel) ? <LettingIn name={channel.name} onChanged={onChanged} /> : null}
      <ChannelLog name={channel.name} canTest={hasPeople(channel)} />
    </li>
  );
}
