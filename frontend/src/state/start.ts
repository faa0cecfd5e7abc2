/** The beginning of the page, and signing in. */

import { call, keepSecret, type Result } from "../api.ts";
import type { Capabilities } from "../bodies.ts";
import { loadTargets } from "./actions.ts";
import { ask, askAfter, signedIn } from "./asking.ts";
import { readHomeDraft, saveDraftNow } from "./drafts.ts";
import { networkChanged, visibilityChanged } from "./link.ts";
import { loadSessions } from "./list.ts";
import { followUnread, looked, onLive, openAgain } from "./opening.ts";
import { sendKept, sendLeftovers } from "./sending.ts";
import { readSettings } from "./settings.ts";
import { connection, linkTrouble, nowMs, runNowMs, server } from "./signals.ts";

const TICK_MS = 1000;

/** Called once: signs in with the link's token, if there is one, and reads what the page needs at all times. */
export async function start(): Promise<void> {
  readSettings();
  readHomeDraft();
  listen();
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    // A used token is worthless, and stays out of the browser's history.
    history.replaceState(null, "", location.pathname);
    askAfter(signInByLink(token));
  }
  await begin();
}

async function signInByLink(token: string): Promise<void> {
  const result = await enter({ token });
  if (!result.ok && result.trouble.status === 401) {
    linkTrouble.value = "This link has expired or was already used.";
  }
}

async function enter(body: { token: string } | { key: string }): Promise<Result<unknown>> {
  const result = await call<{ page: string }>("POST", "/api/sign-in", { body });
  if (result.ok) {
    keepSecret(result.value.page);
    signedIn();
  }
  return result;
}

async function begin(): Promise<void> {
  onLive(() => {
    saveDraftNow();
    void sendLeftovers();
  });
  await Promise.all([describe(), loadSessions(), loadTargets()]);
  if (connection.value !== "signed-out") {
    linkTrouble.value = "";
    await sendKept();
  }
}

async function describe(): Promise<void> {
  const result = await ask<Capabilities>("GET", "/v1/capabilities");
  if (result.ok) {
    const { version, model, auth, features, sandbox, permission_modes } = result.value;
    server.value = {
      version,
      model,
      auth: auth.required,
      scopes: auth.scopes,
      features,
      sandbox: sandbox?.says ?? "",
      mode: permission_modes?.mode ?? "",
      modes: permission_modes?.allowed ?? [],
    };
  }
}

/** Signs in with an API key, or with the token of a printed link. */
export async function signIn(secret: string): Promise<Result<unknown>> {
  const token = /#token=([\w-]+)/.exec(secret)?.[1];
  const result = await enter(token === undefined ? { key: secret.trim() } : { token });
  if (result.ok) {
    connection.value = "connecting";
    openAgain();
    await begin();
  }
  return result;
}

function listen(): void {
  followUnread();
  addEventListener("online", () => void networkChanged());
  addEventListener("offline", () => void networkChanged());
  addEventListener("pagehide", () => saveDraftNow());
  // a sign-in link that is opened in a tab of this page changes nothing but the hash
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) {
      location.reload();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") {
      tick();
      looked();
    } else {
      saveDraftNow();
    }
    void visibilityChanged();
  });
  setInterval(() => {
    if (document.visibilityState === "visible") {
      tick();
    }
  }, TICK_MS);
}

function tick(): void {
  nowMs.value = Date.now();
  if (connection.value === "live") {
    runNowMs.value = nowMs.value;
  }
}
