/** What most chats never show: one script, fetched when the first of it is needed. */

export { sendOwnCommand } from "../features/commands/own_commands.ts";
export { AgentSaid, Agents, ParentLink } from "../features/delegation/agents.tsx";
export { Proposals } from "../features/memory/proposals.tsx";
export { proposeMemory } from "../features/memory/propose.ts";
export { PlanCard } from "../features/plans/plan_card.tsx";
export { UndoNote } from "../features/undo/undo_note.tsx";
export { FindHint } from "../frame/find_hint.tsx";
export { Rename } from "../frame/rename.tsx";
export { Hits } from "../frame/search_hits.tsx";
export { ToastCard } from "../frame/toast_card.tsx";
export { Asks } from "./asks.tsx";
export { AttachmentList } from "./attachment_list.tsx";
export { CommandHints } from "./command_hints.tsx";
export { EndingDetails } from "./ending_details.tsx";
export { memoryIn } from "./marked_words.ts";
export { Marks } from "./marks.tsx";
export { Notice } from "./notice.tsx";
export { OriginNote } from "./origin_note.tsx";
export { PasteOffer } from "./paste_offer.tsx";
export { QueueCards } from "./queue_cards.tsx";
export { Superseded } from "./superseded.tsx";
export { ToolInside } from "./tool_inside.tsx";
export { VersionSwitch } from "./version_switch.tsx";
