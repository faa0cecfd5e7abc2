"""What the server does by itself while it runs."""
