/** What most chats never show: one script, fetched when the first of it is needed. */

export { AgentSaid, Agents, ParentLink } from "./agents.tsx";
export { Asks } from "./asks.tsx";
export { Marks } from "./marks.tsx";
export { PlanCard } from "./plan.tsx";
export { QueueCards } from "./queue_cards.tsx";
