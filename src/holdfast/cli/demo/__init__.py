"""`holdfast demo`, and the scripted model behind it."""
