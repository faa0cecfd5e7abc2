"""Who may call the server: keys, sign-ins and tickets."""
