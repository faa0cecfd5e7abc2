"""Pure decisions about model calls: failures, retries, deadlines, gates."""
