"""Shares a file in a Slack conversation, and finds it there later.

Slack accepts a file in three steps: get a URL, upload the bytes, share the file. Only the last step is
visible, so a failure before it restarts from the beginning.
"""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.decisions.deliveries import Arrived, DidNotArrive, FormatRefused, MayHaveArrived, SendResult
from holdfast.features.channels.files_out import FileContent, rejection_text
from holdfast.features.channels.messages import Unanswered, Unwritten, shaped
from holdfast.features.channels.slack.api import SlackApi, SlackDone, SlackFailure, SlackReply
from holdfast.features.channels.slack.blocks import SlackMessage, plain_message
from holdfast.features.channels.slack.replies import APP_TROUBLE, sent_as
from holdfast.features.channels.texts import MARK

# The app can't send files, but can send a notice.
LACKS_PERMISSION = frozenset({"missing_scope", "no_permission", "access_denied"})
HINT = "If this happens with every file, add the scope `files:write` to the app."
UNCLEAR = "file_update_failed"  # Slack's error code for an internal failure while sharing


async def share(api: SlackApi, place: Mapping[str, str], file: FileContent, *, is_marked: bool) -> SendResult:
    """Bring a file to a conversation; it is confirmed under its own id, since Slack names no message."""
    asked = await api.call("files.getUploadURLExternal", {"filename": file.name, "length": len(file.data)})
    if not isinstance(asked, SlackDone):
        return _before_sharing(asked)
    file_id = str(asked.value.get("file_id", ""))
    brought = await api.upload(str(asked.value.get("upload_url", "")), file.data)
    if not isinstance(brought, SlackDone):
        return _before_sharing(brought)
    arguments = {
        "files": json.dumps([{"id": file_id, "title": file.name}]),
        "channel_id": place["channel"],
        **({"thread_ts": place["thread_ts"]} if "thread_ts" in place else {}),
        **_caption(file, is_marked=is_marked),
    }
    return _shared(file_id, await api.call("files.completeUploadExternal", arguments))


def in_place_of(file: FileContent) -> SlackMessage:
    """Return the notice for a rejected file."""
    return plain_message(f"{rejection_text(file, 'Slack')} {HINT}")


def shared_in(message: Mapping[str, Any], file: FileContent, *, bot: str) -> str:
    """The id of the file, if the message is one in which the bot shared one like this; else empty."""
    files = shaped(message.get("files") or [], list[dict[str, Any]]) or []
    is_it = [one.get("size") for one in files] == [len(file.data)] and message.get("user") == bot
    return str(files[0].get("id", "")) if is_it else ""


def _caption(file: FileContent, *, is_marked: bool) -> dict[str, str]:
    """The words above a file, as rich text: an `initial_comment` would be read for markup."""
    text = f"{MARK if is_marked else ''}\n{file.caption}".strip()
    return {"blocks": json.dumps(list(plain_message(text).blocks))} if text else {}


def _before_sharing(reply: SlackReply) -> SendResult:
    """Return the outcome of a failure before the file was shared."""
    match reply:
        case Unwritten(why=why) | Unanswered(why=why):
            return DidNotArrive(why)
        case SlackFailure():
            return _refused(reply)
        case SlackDone():
            raise AssertionError("that went well")


def _shared(file_id: str, reply: SlackReply) -> SendResult:
    match reply:
        case SlackDone():
            return Arrived(file_id)
        case SlackFailure(error=error) if error == UNCLEAR:
            return MayHaveArrived(error)
        case SlackFailure():
            return _refused(reply)
        case Unwritten() | Unanswered():
            return sent_as(reply)


def _refused(failure: SlackFailure) -> SendResult:
    """Replace a rejected file with a text, which is rejected permanently if the chat no longer exists."""
    is_for_later = failure.error == "ratelimited" or failure.error in APP_TROUBLE - LACKS_PERMISSION
    return sent_as(failure) if is_for_later else FormatRefused(failure.error)
