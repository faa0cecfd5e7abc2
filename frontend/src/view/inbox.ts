/** What people sent to a session: each message has exactly one visible state, and the queue has one order. */

import type { MessageAccepted, MessageEdited } from "../events.ts";
import type { Message, MessageState } from "./entries.ts";

/** All messages that the page knows; `queue` and `steering` hold the ids of those that wait, in order. */
export interface Inbox {
  readonly messages: Map<string, Message>;
  queue: string[];
  steering: string[];
}

export function emptyInbox(): Inbox {
  return { messages: new Map(), queue: [], steering: [] };
}

/** Steers first, then the queue in its order. */
export function waiting(inbox: Inbox): Message[] {
  return [...inbox.steering, ...inbox.queue].flatMap((id) => inbox.messages.get(id) ?? []);
}

/** A second event with the same id has no effect. */
export function accept(inbox: Inbox, seq: number, event: MessageAccepted, runIsOpen: boolean): void {
  if (inbox.messages.has(event.message_id)) {
    return;
  }
  const mode = event.mode ?? "send";
  const steers = (mode === "steer" || mode === "redirect") && runIsOpen;
  inbox.messages.set(event.message_id, {
    message_id: event.message_id,
    seq,
    at_ms: event.at_ms,
    text: event.text,
    parts: event.parts ?? [],
    mode,
    client_id: event.client_id ?? "",
    state: steers ? "steering" : "queued",
    run_id: steers ? (event.run_id ?? "") : "",
    child: event.child ?? "",
  });
  (steers ? inbox.steering : inbox.queue).push(event.message_id);
}

/** A waiting message gets another text; one that was handed over before keeps its own. */
export function edit(inbox: Inbox, event: MessageEdited): void {
  const message = inbox.messages.get(event.message_id);
  if (message !== undefined && waits(message)) {
    message.text = event.text;
    message.parts = event.parts ?? [];
  }
}

/** 0 is next; a place outside the queue is its nearer end. */
export function move(inbox: Inbox, messageId: string, position: number): void {
  if (inbox.queue.includes(messageId)) {
    inbox.queue = inbox.queue.filter((id) => id !== messageId);
    inbox.queue.splice(Math.max(position, 0), 0, messageId);
  }
}

/** A waiting message is removed. */
export function remove(inbox: Inbox, messageId: string): void {
  const message = inbox.messages.get(messageId);
  if (message !== undefined && waits(message)) {
    settle(inbox, message, "removed");
  }
}

/** A run exists for the message; a message that was handed over before (a retry) waits again. */
export function queueFor(inbox: Inbox, messageId: string, runId: string): void {
  const message = inbox.messages.get(messageId);
  if (message === undefined) {
    return;
  }
  message.run_id = runId;
  if (message.state !== "queued") {
    settle(inbox, message, "queued");
    inbox.queue.push(messageId);
  }
}

/** The run has the message from here on, even if someone just took it back. */
export function handOver(inbox: Inbox, message: Message, runId: string): void {
  message.run_id = runId;
  settle(inbox, message, "dispatched");
}

/** Steers that came too late are next in the queue; what waited for this very run went with it. */
export function runEnded(inbox: Inbox, runId: string): Message[] {
  const ofRun = (id: string) => inbox.messages.get(id)?.run_id === runId;
  const wentAlong = inbox.queue.filter(ofRun).flatMap((id) => inbox.messages.get(id) ?? []);
  for (const message of wentAlong) {
    settle(inbox, message, "dispatched");
  }
  const late = inbox.steering.filter(ofRun).flatMap((id) => inbox.messages.get(id) ?? []);
  for (const message of late) {
    settle(inbox, message, "queued");
    message.run_id = "";
  }
  inbox.queue.unshift(...late.map((message) => message.message_id));
  return wentAlong;
}

function settle(inbox: Inbox, message: Message, state: MessageState): void {
  message.state = state;
  inbox.queue = inbox.queue.filter((id) => id !== message.message_id);
  inbox.steering = inbox.steering.filter((id) => id !== message.message_id);
}

function waits(message: Message): boolean {
  return message.state === "queued" || message.state === "steering";
}
