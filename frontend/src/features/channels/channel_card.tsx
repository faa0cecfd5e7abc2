/** One channel: whether it works, its people, and what can be done with it. */
import type { JSX } from "preact";
import type { ChannelShown } from "../../bodies.ts";
import { moment } from "../../format.ts";
import { harmless } from "../../markdown/safe.ts";
import { Fact } from "../../server_panels/fact.tsx";
import { stopped } from "../../server_panels/target_words.ts";
import { quoted } from "../../talk/quoted.tsx";
import { ChannelLog } from "./channel_log.tsx";
import { LettingIn } from "./letting_in.tsx";
import { People } from "./people.tsx";
import { hasPeople, platformOf, stateOf, undeliveredOf, waitingOf } from "./words.ts";

interface ChannelCardProps {
  readonly channel: ChannelShown;
  readonly onChanged: () => void;
}

export function ChannelCard({ channel, onChanged }: ChannelCardProps): JSX.Element {
  const state = stateOf(channel);
  const undelivered = undeliveredOf(channel);
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
              {quoted(stopped(harmless(channel.problem)))}{" "}
              {quoted(harmless(channel.hint ?? "") || "Holdfast retries automatically.")}
            </span>
          ) : null}
        </Fact>
        {channel.node ? <Fact name="Server">{harmless(channel.node)}</Fact> : null}
        <Fact name="Pending">{waitingOf(channel)}</Fact>
        {undelivered ? (
          <Fact name="Not delivered">
            <span class="warned">{undelivered}</span>
          </Fact>
        ) : null}
        {hasPeople(channel) ? (
          <Fact name="People">
            <People channel={channel} onChanged={onChanged} />
          </Fact>
        ) : null}
      </dl>
      {hasPeople(channel) ? <LettingIn channel={channel} onChanged={onChanged} /> : null}
      <ChannelLog name={channel.name} canTest={hasPeople(channel)} />
    </li>
  );
}
