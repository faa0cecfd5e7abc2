"""Runs over AG-UI, the protocol of chat front ends such as CopilotKit."""
