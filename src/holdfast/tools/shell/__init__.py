"""Running commands: in the foreground, in the background, and ending them."""
