"""E-mail: a mailbox by IMAP, and answers by SMTP."""
