"""The settings of [approvals]: the permission mode and rules."""

from typing import Annotated, Literal

import msgspec

from holdfast.config.fields import AtLeast0, doc
from holdfast.policy.verdicts import RuleVerdict
from holdfast.values import ApprovalMode, OldMode, OnExpiry


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[approvals.rules]]: rules for actions. Set exactly one of allow, ask and deny."""

    allow: Annotated[str, doc("Tool whose matching actions run without approval.", "name")] = ""
    ask: Annotated[str, doc("Tool whose matching actions always need approval.", "name")] = ""
    deny: Annotated[str, doc("Tool whose matching actions never run.", "name")] = ""
    argv: Annotated[
        tuple[str, ...],
        doc("First words of a matching command. With allow, only harmless words can follow them."),
    ] = ()
    exact: Annotated[bool, doc("Whether an allowed command must be exactly the words in argv.")] = False
    paths: Annotated[
        tuple[str, ...],
        doc(
            "Paths that a matching action touches. deny and ask also match a search or listing of a parent "
            "folder.",
            "path",
        ),
    ] = ()
    host: Annotated[str, doc("Host that a matching action calls.", "host name")] = ""

    @property
    def verdict(self) -> RuleVerdict:
        """Return the rule's verdict."""
        return "allow" if self.allow else "ask" if self.ask else "deny"

    @property
    def tool(self) -> str:
        """The tool that the rule is about."""
        return self.allow or self.ask or self.deny


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[approvals]: when actions need approval. An unanswered request is never approved."""

    mode: Annotated[
        Literal[ApprovalMode, OldMode],
        doc(
            "`plan`: only read, until a plan is accepted. `ask`: ask about every change. `edits`: don't ask "
            "about edits of workspace files that undo covers. `workspace` (or `allow-workspace`): allow "
            "anything the sandbox contains. `unattended`: never ask; deny."
        ),
    ] = "ask"
    mode_max: Annotated[
        ApprovalMode,
        doc(
            "Least strict mode that chats and keys from `holdfast keys add` can set for a session. The keys "
            "of this configuration and the generated key can set any."
        ),
    ] = "ask"
    expires_s: Annotated[AtLeast0, doc("How long a request stays open; 0 means until someone answers.")] = (
        86_400
    )
    on_expiry: Annotated[
        OnExpiry, doc("Whether a run continues without the action or stops if no one answers.")
    ] = "continue"
    rules: tuple[RuleSettings, ...] = ()

    @property
    def permission_mode(self) -> ApprovalMode:
        """The mode, by its current name."""
        return "workspace" if self.mode == "allow-workspace" else self.mode
