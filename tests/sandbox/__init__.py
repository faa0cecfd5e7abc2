"""The sandbox, attacked and used: what gets out, what is watched, and what is asked."""
