// Made by scripts/page_events.py from holdfast.folds.activity; change it there and run the script again.

/** How a live line begins while the store rejects the run's events. */
export const SAVING_DELAYED = "saving is delayed";

/** What people are told in each state. */
export const WORDS = {
  queued: "queued",
  starting: "starting",
  between: "working",
  waiting: "waiting for {model}",
  thinking: "{model} is thinking",
  answering: "{model} is answering",
  pausing: "{model} is working",
  retrying: "retrying",
  gated: "waiting for the provider",
  compacting: "summarizing the conversation",
  asking: "{model} wants to run {tool}",
  next: "about to run {tool}",
  tool: "running {tool}",
  tools: "running {count} tools",
  approval: "waiting for your approval",
  question: "waiting for your answer",
  client: "waiting for the client to run its tools",
  stopping: "stopping",
  resumed: "resuming after a {after}",
  ended: "",
} as const;

/** What a run is doing after an event, unless a tool, a person or a stop says more. */
export const AFTER = {
  "run.queued": "queued",
  "run.started": "starting",
  "call.started": "between",
  "attempt.started": "waiting",
  "attempt.failed": "retrying",
  "text.delta": "answering",
  "text.done": "pausing",
  "reasoning.delta": "thinking",
  "reasoning.done": "pausing",
  "call.gated": "gated",
  "call.ended": "between",
  "context.compacted": "between",
  "tool.asked": "asking",
  "tool.started": "between",
  "tool.ended": "between",
  "approval.asked": "between",
  "approval.answered": "between",
  "approval.expired": "between",
  "approval.withdrawn": "between",
  "question.asked": "between",
  "question.answered": "between",
  "question.expired": "between",
  "question.withdrawn": "between",
  "client_tools.asked": "between",
  "client_tools.answered": "between",
  "client_tools.expired": "between",
  "client_tools.withdrawn": "between",
  "stop.requested": "stopping",
  "run.resumed": "resumed",
  "run.ended": "ended",
} as const;
