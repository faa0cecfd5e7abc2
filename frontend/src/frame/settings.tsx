/** The settings of this browser, the models with their health, and the way out. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { TargetState } from "../bodies.ts";
import { grouped } from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { isBare, SHORTCUTS } from "../keys.ts";
import { areSeveral } from "../server_panels/node_words.ts";
import { readNodes } from "../server_panels/requests.ts";
import { healthOf } from "../server_panels/target_words.ts";
import {
  changeSettings,
  has,
  loadTargets,
  may,
  nowMs,
  type SendKey,
  server,
  settings,
  signOut,
  type Theme,
  targets,
} from "../state.ts";
import { Choices } from "./choices.tsx";
import { Dialog } from "./dialog.tsx";
import { askToNotify, type Permission, permission } from "./notify.ts";
import { Quarantine } from "./quarantine.tsx";
import { Rules } from "./rules.tsx";
import { closeDialog, type DialogName, dialog, isMac } from "./ui.ts";

const close = (): void => closeDialog("settings");

export function SettingsDialog(): JSX.Element {
  return (
    <Dialog title="Settings" onClose={close}>
      <Panels />
      <Choices<Theme>
        legend="Appearance"
        value={settings.value.theme}
        options={[
          { value: "system", words: "System", icon: "screen" },
          { value: "light", words: "Light", icon: "sun" },
          { value: "dark", words: "Dark", icon: "moon" },
        ]}
        onChange={(theme) => changeSettings({ theme })}
      />
      <Choices<SendKey>
        legend="Send messages with"
        value={settings.value.sendKey}
        options={[
          { value: "enter", words: "Enter" },
          { value: "mod-enter", words: isMac ? "⌘ Enter" : "Ctrl + Enter" },
        ]}
        onChange={(sendKey) => changeSettings({ sendKey })}
      />
      <Shortcuts />
      <Notifications />
      {may("approve") ? (
        <Section name="Allowed without asking">
          <Rules />
        </Section>
      ) : null}
      {may("approve") ? (
        <Section name="Quarantine">
          <Quarantine />
        </Section>
      ) : null}
      <Models />
      <About />
    </Dialog>
  );
}

interface SwitchProps {
  readonly words: string;
  readonly more: string;
  readonly on: boolean;
  readonly disabled?: boolean;
  readonly onChange: (on: boolean) => void;
}

function Switch({ words, more, on, disabled = false, onChange }: SwitchProps): JSX.Element {
  return (
    <label class="switch-line">
      <span>
        {words}
        <span class="fine muted">{more}</span>
      </span>
      <input
        type="checkbox"
        role="switch"
        aria-checked={on}
        class="switch"
        checked={on}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </label>
  );
}

function Shortcuts(): JSX.Element {
  const bare = SHORTCUTS.flatMap(({ keys }) => keys.filter(isBare));
  return (
    <Section name="Keyboard">
      <Switch
        words="Single-key shortcuts"
        more={`When you aren't typing: ${bare.join(", ")}`}
        on={settings.value.bareKeys}
        onChange={(bareKeys) => changeSettings({ bareKeys })}
      />
    </Section>
  );
}

const PERMISSION_WORDS: Readonly<Record<Permission, string>> = {
  granted: "When a run needs you or finishes while this tab is hidden.",
  default: "Your browser will ask for permission.",
  denied: "Your browser blocks them. Allow them in its settings.",
  unsupported: "Your browser doesn't support them.",
};

function Notifications(): JSX.Element {
  const [allowed, setAllowed] = useState(permission());
  const wanted = settings.value.notifications && allowed === "granted";
  const change = async (on: boolean): Promise<void> => {
    const answer = on ? await askToNotify() : allowed;
    setAllowed(answer);
    changeSettings({ notifications: on && answer === "granted" });
  };
  return (
    <Section name="Notifications">
      <Switch
        words="Show notifications"
        more={PERMISSION_WORDS[allowed]}
        on={wanted}
        disabled={allowed === "denied" || allowed === "unsupported"}
        onChange={(on) => void change(on)}
      />
    </Section>
  );
}

function Models(): JSX.Element {
  const [atMs, setAtMs] = useState(() => Date.now());
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    void loadTargets().then((result) => {
      setAtMs(Date.now());
      setTrouble(result.ok ? "" : result.trouble.message);
    });
  }, []);
  return (
    <Section name="Models">
      {trouble ? <p class="problem">{trouble}</p> : null}
      <ul class="models">
        {targets.value.map((target) => (
          <Model key={target.name} target={target} atMs={atMs} />
        ))}
      </ul>
    </Section>
  );
}

/** The panels that open from here: first, because nothing else on the page leads to them. */
function Panels(): JSX.Element {
  const [several, setSeveral] = useState(false);
  useEffect(() => {
    if (may("admin")) void readNodes().then((result) => setSeveral(result.ok && areSeveral(result.value)));
  }, []);
  return (
    <Section name="Manage">
      <div class="ways">
        <Way to="targets" icon="bolt">
          Targets
        </Way>
        {has("usage_reports") ? (
          <Way to="usage" icon="timeline">
            Usage
          </Way>
        ) : null}
        {has("memory") ? (
          <Way to="memory" icon="pin">
            Memory
          </Way>
        ) : null}
        {has("skills") ? (
          <Way to="skills" icon="file">
            Skills
          </Way>
        ) : null}
        {may("admin") && has("automations") ? (
          <Way to="automations" icon="clock">
            Automations
          </Way>
        ) : null}
        {may("admin") && has("channels") ? (
          <Way to="channels" icon="chat">
            Channels
          </Way>
        ) : null}
        {several ? (
          <Way to="nodes" icon="swap">
            Servers
          </Way>
        ) : null}
      </div>
    </Section>
  );
}

interface WayProps {
  readonly to: DialogName;
  readonly icon: IconName;
  readonly children: string;
}

/** Opens another dialog in place of this one. */
function Way({ to, icon, children }: WayProps): JSX.Element {
  return (
    <button
      type="button"
      class="button small"
      onClick={() => {
        dialog.value = to;
      }}
    >
      <Icon name={icon} />
      {children}
    </button>
  );
}

function Model({ target, atMs }: { target: TargetState; atMs: number }): JSX.Element {
  const health = healthOf(target, atMs, nowMs.value);
  return (
    <li class="model">
      <span class={`health ${health.kind}`} aria-hidden="true" />
      <span class="model-name">
        {target.name}
        <span class="fine muted">
          {[target.model === target.name ? "" : target.model, target.wire, windowOf(target)]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </span>
      <span class={`fine ${health.kind === "good" ? "muted" : "warned"}`}>{health.words}</span>
    </li>
  );
}

function windowOf({ context_window: size }: TargetState): string {
  return size > 0 ? `${grouped(size / 1000)} k context` : "";
}

function About(): JSX.Element {
  const [trouble, setTrouble] = useState("");
  const about = server.value;
  return (
    <Section name="About">
      <div class="about">
        <span>
          Holdfast {about?.version ?? ""}
          <span class="fine muted">Everything you see is already on disk.</span>
          {about?.sandbox ? <span class="fine muted">{about.sandbox}</span> : null}
        </span>
        {about?.auth ? (
          <button
            type="button"
            class="button"
            onClick={async () => {
              const result = await signOut();
              if (result.ok) close();
              else setTrouble(result.trouble.message);
            }}
          >
            <Icon name="signout" />
            Sign out
          </button>
        ) : null}
      </div>
      {trouble ? <p class="problem">{trouble}</p> : null}
    </Section>
  );
}

function Section({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class="setting">
      <h3>{name}</h3>
      {children}
    </section>
  );
}
