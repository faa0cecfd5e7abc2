"""The built-in tools: commands, files, the web and a question to the user; and those of MCP servers.

To add a tool:

1. Write one module with a msgspec Struct for the arguments and a class that implements
   `holdfast.interfaces.tool.Tool`. `files/listing.py` is a short example.
2. If it touches files, `action` names them in `Action.paths`, for the approval policy, and `run` opens them
   through `Workspace(…).bound_to(call.judged_paths)`, so that it touches only what was judged.
3. Add an instance to the list in `built_in.built_in_tools`, and the tool's name, at the same position, to
   `holdfast.policy.tool_names.BUILT_IN`, with what the policy takes a call of it to do. One that works with
   the store is added in `host/assembly.py` instead, and its name to `WITH_STORE` there.
4. Give it an icon on the page, in `frontend/src/talk/tool_words.ts`; without one it gets the general one.

The description and the schema that the model sees come from the class and its Struct. The arguments are
checked before `action` and `run` are called.
"""
