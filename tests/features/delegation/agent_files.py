"""Files of named agents."""

from pathlib import Path

REVIEWER = """---
name: reviewer
description: Reviews
  changes.
model: fast
effort: high
temperature: 0.2
max_tokens: 900
tools: [read_file, search_files]
mode: plan
budget: {tokens: 1000, cost_usd: 0.5}
color: blue
---

Be strict.
"""


def put(folder: Path, name: str, text: str) -> Path:
    """Write an agent's file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name
