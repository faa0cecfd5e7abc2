/** The help that "?" and "/help" open: every command and every shortcut. */
import type { JSX } from "preact";
import { useOwnCommands } from "../features/commands/own_commands.ts";
import { Icon } from "../icons.tsx";
import { caps, isBare, SHORTCUTS } from "../keys.ts";
import { settings } from "../state.ts";
import { commands } from "../talk/command_words.ts";
import { marked } from "../talk/marked_words.ts";
import { Dialog } from "./dialog.tsx";
import { closeDialog, dialog, isMac } from "./ui.ts";

const close = (): void => closeDialog("help");

export function KeyboardHelp(): JSX.Element {
  const sendKeys = settings.value.sendKey === "enter" ? ["enter"] : ["mod+enter"];
  const { bareKeys } = settings.value;
  const newLine = settings.value.sendKey === "enter" ? ["shift+enter"] : ["enter"];
  return (
    <Dialog title="Commands and shortcuts" onClose={close}>
      <h3 class="section-name">Commands</h3>
      <dl class="shortcuts">
        {[...commands(), ...useOwnCommands(true), ...marked()].map(([name, words]) => (
          <div key={name} class="shortcut">
            <dt>{words.charAt(0).toUpperCase() + words.slice(1)}</dt>
            <dd>
              <code>{name}</code>
            </dd>
          </div>
        ))}
      </dl>
      <h3 class="section-name">Everywhere</h3>
      <dl class="shortcuts">
        {SHORTCUTS.map(({ command, words, keys }) => (
          <Line
            key={command}
            words={words}
            keys={[
              ...keys.filter((one) => bareKeys || !isBare(one)),
              ...(command === "stop" ? ["escape+escape"] : []),
            ]}
          />
        ))}
      </dl>
      <h3 class="section-name">In the message field</h3>
      <dl class="shortcuts">
        <Line words="Send" keys={sendKeys} />
        <Line words="New line" keys={newLine} />
      </dl>
      <h3 class="section-name">In the chat list</h3>
      <dl class="shortcuts">
        <Line words="Move between chats" keys={["arrowup", "arrowdown"]} />
        <Line words="Rename" keys={["f2"]} />
      </dl>
      <p class="muted fine">
        {bareKeys
          ? "Single-key shortcuts work when you aren't typing. Turn them off in settings."
          : "Single-key shortcuts are off. Turn them on in settings."}
      </p>
      <button
        type="button"
        class="button small"
        onClick={() => {
          dialog.value = "settings";
        }}
      >
        <Icon name="gear" />
        Settings
      </button>
    </Dialog>
  );
}

function Line({ words, keys }: { words: string; keys: readonly string[] }): JSX.Element {
  return (
    <div class="shortcut">
      <dt>{words}</dt>
      <dd>
        {keys.map((combination, nth) => (
          <span key={combination}>
            {nth > 0 ? <span class="muted"> or </span> : null}
            {caps(combination, isMac).map((cap, at) => (
              <kbd key={at}>{cap}</kbd>
            ))}
          </span>
        ))}
      </dd>
    </div>
  );
}
