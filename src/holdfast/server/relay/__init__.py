"""The relay: model calls of other programs, passed on with Holdfast's deadlines, gates and retries."""
