"""What an agent may do: a pure decision about one exact action.

Start at `approvals.judge`. `path_facts` knows the workspace and other paths, `approval_rules` applies the
configured rules and the grants that people gave, and `shell` judges command lines.
"""
