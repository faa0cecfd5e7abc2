"""Access to the server: keys, sign-ins and tickets."""
