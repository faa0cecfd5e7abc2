"""The built-in tools: commands, files, the web and a question to the user; and those of MCP servers.

To add a tool:

1. Write one module with a msgspec Struct for the arguments and a class that implements
   `holdfast.interfaces.tool.Tool`. `files/listing.py` is a short example.
2. Add an instance to the list in `registry.built_in_tools`.
3. Add its name, and what the approval policy takes a call of it to do, to `holdfast.policy.tool_names`.

The description and the schema that the model sees come from the class and its Struct. The arguments are
checked before `action` and `run` are called.
"""
