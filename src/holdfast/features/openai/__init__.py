"""OpenAI's APIs for agents: Chat Completions, Responses, conversations and models."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="openai",
    operations="operations:OPERATIONS",
    routes={
        "openai": "routes:OpenAIRoutes",
        "responses": "routes:ResponseRoutes",
        "conversations": "conversations:ConversationRoutes",
    },
)
