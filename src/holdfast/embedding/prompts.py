"""What a program sends to an agent: a text, or texts and attachments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.interfaces.journal import Blobs
from holdfast.values import FilePart, ImagePart, Part


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file that goes with a prompt.

    Example::

        from holdfast import Agent, Attachment
        from holdfast.testing import Say, ScriptedModel

        photo = Attachment(b"GIF89a", "image/gif", name="cat.gif")
        result = await Agent(ScriptedModel([Say("A cat.")])).run(["What is this?", photo])
        assert result.output == "A cat."
    """

    data: bytes = field(repr=False)
    media_type: str
    name: str = ""


Prompt: TypeAlias = str | Sequence[str | Attachment]


def checked_prompt(prompt: Prompt) -> Prompt:
    """The prompt; raises TypeError or ValueError if there is nothing in it to send."""
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ValueError("The prompt is empty.")
        return prompt
    given: list[object] = list(prompt) if isinstance(prompt, list | tuple) else [prompt]
    for part in given:
        if not isinstance(part, str | Attachment):
            raise TypeError(f"A prompt is a text, or a list of texts and Attachments, and not {part!r:.80}.")
        if isinstance(part, Attachment) and not isinstance(part.data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # programs without types
            raise TypeError(f"The data of an Attachment is bytes, and not {type(part.data).__name__}.")
    if not given:
        raise ValueError("The prompt is empty.")
    return prompt


async def text_and_parts(prompt: Prompt, blobs: Blobs) -> tuple[str, tuple[Part, ...]]:
    """The prompt as a message holds it: its text, and its attachments as blobs."""
    if isinstance(prompt, str):
        return prompt, ()
    parts: list[Part] = []
    for given in prompt:
        if isinstance(given, Attachment):
            blob = await blobs.put_blob(given.data)
            media_type = given.media_type
            if media_type.startswith("image/"):
                parts.append(ImagePart(blob=blob, media_type=media_type, name=given.name))
            else:
                parts.append(FilePart(blob=blob, media_type=media_type, name=given.name or "file"))
    return "\n".join(given for given in prompt if isinstance(given, str)), tuple(parts)
