/** Which events bring entries to a run or change them. */

import type * as e from "../events.ts";
import { type AskEvent, isAsk } from "./asks.ts";

/** The events that can bring an entry to a run or change one. */
export type RunStep =
  | e.RunStarted
  | e.CallStarted
  | e.AttemptStarted
  | e.AttemptSuperseded
  | e.TextDelta
  | e.TextDone
  | e.ReasoningDelta
  | e.ReasoningDone
  | e.ToolAsked
  | e.ToolStarted
  | e.ToolOutput
  | e.ToolEnded
  | AskEvent
  | e.RunResumed
  | e.TargetSwitched
  | e.CallGated
  | e.ContextCompacted
  | e.ContextTrimmed
  | e.ContextCompactionFailed
  | e.AttachmentsSaved
  | e.ContextNoted
  | e.GoalContinued
  | e.ImageDescribed
  | e.AudioTranscribed
  | e.RunEnded;

const RUN_STEPS: Readonly<Record<Exclude<RunStep, AskEvent>["type"], true>> = {
  "run.started": true,
  "call.started": true,
  "attempt.started": true,
  "attempt.superseded": true,
  "text.delta": true,
  "text.done": true,
  "reasoning.delta": true,
  "reasoning.done": true,
  "tool.asked": true,
  "tool.started": true,
  "tool.output": true,
  "tool.ended": true,
  "run.resumed": true,
  "target.switched": true,
  "call.gated": true,
  "context.compacted": true,
  "context.trimmed": true,
  "context.compaction_failed": true,
  "attachments.saved": true,
  "context.noted": true,
  "goal.continued": true,
  "image.described": true,
  "audio.transcribed": true,
  "run.ended": true,
};

export function isRunStep(event: e.AnyEvent): event is RunStep {
  return isAsk(event) || Object.hasOwn(RUN_STEPS, event.type);
}
