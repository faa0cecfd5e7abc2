"""The tools in the box: processes, files, the web and a question to the user."""
