"""Judges shell commands for the approval policy, without running anything.

How a command such as `cd src && sudo rm -r x; git push` travels through this package:

1. `verdicts.judge_script` is the entry. It asks `steps_of` for every command that the text would run.
2. `syntax.parse` turns the text into `commands.SimpleCommand`s with `words.Word`s. tree-sitter gives the
   structure; `source` and `here_documents` check it against the text. What the two disagree about is a reason
   to ask, and `guesses` adds what the text might run then.
3. `wrappers.steps` opens `sudo`, `env`, `xargs`, `sh -c`, `find -exec` and the like, so that `rm` is judged
   and not `sudo`. Each command is a `ScriptStep`.
4. For each step, `verdicts` collects sentences from:
   - `dangers`: what is always refused. Here `rm -r ~` is judged.
   - `read_only_programs` and its `option_tables`: programs and options that only read. A program in neither,
     such as `rm`, "can change files".
   - `programs`: what is asked about even where workspace programs are trusted. Here `git push` and `curl`
     are judged, in the tables of what reaches other machines.
   - `git`: what the repository's own settings and hooks would make git run.
   - `autorun_writes` and `generated_names`: writes to files that other programs run later.
   - `verdicts` itself: paths outside the workspace, redirections, variables, secrets.

`holdfast.policy.approvals` then compares these sentences with rules, grants and the mode. To judge a new
program, add it to a table in `option_tables`, `read_only_programs` or `programs`, and an example to
`tests/policy/commands.toml`.
"""
