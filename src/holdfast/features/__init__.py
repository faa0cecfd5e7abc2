"""Features: each folder holds everything about one, and declares it (see interfaces/feature.py)."""
