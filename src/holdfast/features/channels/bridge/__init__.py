"""A bridge: any chat system behind a small program that signs webhooks."""
