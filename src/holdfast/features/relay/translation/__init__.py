"""Between two wires: a client's request as our messages, and a model's events as the client's protocol."""
