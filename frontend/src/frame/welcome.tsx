/** The empty start: what this is good for, as three things to try. */
import type { JSX } from "preact";
import { Icon, type IconName, Mark } from "../icons.tsx";
import { create, saveDraft, server, session } from "../state.ts";
import { focusComing } from "./ui.ts";

interface Suggestion {
  readonly icon: IconName;
  readonly title: string;
  readonly words: string;
  readonly message: string;
}

const WORK: readonly Suggestion[] = [
  {
    icon: "folder",
    title: "Explore a project",
    words: "Read the workspace and explain how it works",
    message:
      "Look through the workspace and explain how this project works, where it starts, and what I should read first.",
  },
  {
    icon: "terminal",
    title: "Take on a bigger task",
    words: "Run the tests and fix failures step by step",
    message:
      "Run the tests. Explain each failure in one sentence, then fix them one by one and run the tests again.",
  },
  {
    icon: "warning",
    title: "Find out what went wrong",
    words: "Read the latest logs and find the first error",
    message: "Find the latest logs, point out the first error, and explain the likely cause.",
  },
];

/** The demo model can't work: each of these is a word that it has a script for. */
const DEMO: readonly Suggestion[] = [
  {
    icon: "terminal",
    title: "Watch it use tools",
    words: "Follow each step, and open it for details",
    message: "tools",
  },
  {
    icon: "hand",
    title: "Approve an action",
    words: "Review a deletion before it happens",
    message: "danger",
  },
  {
    icon: "bolt",
    title: "See it recover",
    words: "Make the demo model stall and watch what happens",
    message: "stall",
  },
];

export function Welcome(): JSX.Element {
  const take = (message: string): void => {
    if (!session.value) create();
    saveDraft(message);
    focusComing("composer");
  };
  // A chat that is empty has its title above this.
  const Heading = session.value ? "h2" : "h1";
  const isDemo = server.value?.model === "demo";
  return (
    <section class="welcome" aria-labelledby="welcome-title">
      <Mark size={44} />
      <Heading id="welcome-title">What should we work on?</Heading>
      <p class="muted">
        Close the tab, lose your connection, or restart the server: the work continues. Everything you've seen
        is saved. If a restart cuts off an answer, it stays visible until its replacement catches up.
      </p>
      {isDemo ? (
        <p class="muted small-words">
          You're using the demo model. For a real one, set a key such as <code>ANTHROPIC_API_KEY</code> and
          restart the server; <code>holdfast config check</code> lists other options.
        </p>
      ) : null}
      <ul class="suggestions">
        {(isDemo ? DEMO : WORK).map(({ icon, title, words, message }) => (
          <li key={title}>
            <button type="button" class="suggestion" onClick={() => take(message)}>
              <Icon name={icon} />
              <span>
                <strong>{title}</strong>
                <span class="muted">{words}</span>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
