/** Who may talk to a channel, what they may do, how they came to it, and the way out. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ChannelShown, ChannelUserShown } from "../../bodies.ts";
import { moment } from "../../format.ts";
import { harmless } from "../../markdown/safe.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { revoke } from "./requests.ts";
import { howOf, rightsOf } from "./words.ts";

interface PeopleProps {
  readonly channel: ChannelShown;
  readonly onChanged: () => void;
}

export function People({ channel, onChanged }: PeopleProps): JSX.Element {
  const people = channel.users ?? [];
  if (people.length === 0) return <>No one yet</>;
  return (
    <ul class="channel-people" aria-label={`People in ${channel.name}`}>
      {people.map((person) => (
        <Person key={person.user} channel={channel.name} person={person} onChanged={onChanged} />
      ))}
    </ul>
  );
}

interface PersonProps {
  readonly channel: string;
  readonly person: ChannelUserShown;
  readonly onChanged: () => void;
}

function Person({ channel, person, onChanged }: PersonProps): JSX.Element {
  const acting = useActing();
  const [sure, setSure] = useState(false);
  const letOut = async (): Promise<void> => {
    setSure(false);
    if (await acting.act(() => revoke(channel, person.user))) onChanged();
  };
  const name = harmless(person.name) || person.user;
  return (
    <li>
      <span class="channel-person">
        {name}
        {person.name ? <span class="muted"> ({harmless(person.user)})</span> : null}
        <span class="fine muted">
          {rightsOf(person)}; {harmless(howOf(person))}
          {person.since > 0 ? ` on ${moment(1000 * person.since)}` : ""}
        </span>
      </span>
      {sure ? (
        <span role="alert">
          Revoke access?{" "}
          <button type="button" class="button small" onClick={() => void letOut()}>
            Revoke
          </button>{" "}
          <button type="button" class="button small" onClick={() => setSure(false)}>
            Cancel
          </button>
        </span>
      ) : (
        <button
          type="button"
          class="button quiet small"
          aria-disabled={acting.busy}
          onClick={() => setSure(true)}
        >
          Revoke<span class="unseen"> {name}</span>
        </button>
      )}
      <Problem words={acting.trouble} />
    </li>
  );
}
