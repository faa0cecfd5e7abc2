"""Reads and writes mails: who wrote one and whether that's certain, its thread, its text without quotes."""

import re
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.utils import getaddresses, parseaddr
from hashlib import sha256

from holdfast.features.channels.email import is_address
from holdfast.features.channels.incoming import ChatFile, PlatformMessage
from holdfast.features.channels.people import looks_like_code
from holdfast.features.channels.text_platform import TextMessage
from holdfast.features.channels.texts import coded
from holdfast.safe_text import safe_line
from holdfast.tools.web.readable import readable

SUBJECT = "Subject: "
UNVERIFIED = "none"  # the setting for servers that don't check senders
_COMMENT = re.compile(r"\([^()]*\)")
_ID = re.compile(r"<[^<>\s]{1,500}>")
_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")
_QUOTED = re.compile(r"\s*>")
# A line that introduces a quote, in mails of people who write above it.
_INTRODUCTION = re.compile(r"^(-{2,} ?original message.*|_{20,}|from: .*)$", re.IGNORECASE)
_PARSER = BytesParser(policy=policy.default)


def address_of(text: str) -> str:
    """Return the address in its one form; empty if it isn't a plain address."""
    address = text.strip().lower()
    return address if is_address(address) else ""


def thread_of(root: str) -> str:
    """Return the name of the thread that begins with this Message-ID."""
    return sha256(root.encode()).hexdigest()[:16]


def read_mail(raw: bytes, *, authserv_id: str, own: str, size_bytes: int) -> PlatformMessage | None:
    """Parse a mail; None if it's automatic, from ourselves, or its sender isn't certain."""
    mail: EmailMessage = _PARSER.parsebytes(raw)  # pyright: ignore[reportAssignmentType]
    sender = _sender(mail)
    if not sender or sender == own or _is_automatic(mail):
        return None
    if authserv_id != UNVERIFIED and not is_authentic(mail, sender, authserv_id=authserv_id):
        return None
    ids = _ID.findall(f"{mail.get('References', '')} {mail.get('In-Reply-To', '')}")
    own_id = next(iter(_ID.findall(str(mail.get("Message-ID", "")))), "")
    own_id = own_id or f"<{sha256(raw).hexdigest()[:32]}@unknown>"
    body = written(_body(mail))
    files = _files(mail) if size_bytes <= len(raw) else (ChatFile("", "mail", "message/rfc822", size_bytes),)
    return PlatformMessage(
        key=f"m:{sha256(own_id.encode()).hexdigest()[:32]}",
        chat=f"{sender}/{thread_of(ids[0] if ids else own_id)}",
        user=sender,
        name=safe_line(parseaddr(str(mail.get("From", "")))[0]) or sender,
        text=_with_subject(body, safe_line(str(mail.get("Subject", "")))),
        platform_id=own_id,
        is_direct=True,
        is_for_us=True,
        files=files,
    )


def _sender(mail: Message) -> str:
    """Return the address of the only sender; empty if there are several."""
    headers = [str(one) for one in mail.get_all("From", [])]
    found = getaddresses(headers)
    return address_of(found[0][1]) if len(headers) == len(found) == 1 else ""


def _is_automatic(mail: Message) -> bool:
    """Return whether a program sent it. An answer could start an endless exchange."""
    automatic = str(mail.get("Auto-Submitted", "no")).partition(";")[0].strip().lower()
    is_bulk = str(mail.get("Precedence", "")).strip().lower() in {"bulk", "list", "junk"}
    is_bounce = str(mail.get("Return-Path", "")).strip() == "<>"
    return automatic != "no" or is_bulk or is_bounce or "List-Id" in mail


def is_authentic(mail: Message, sender: str, *, authserv_id: str) -> bool:
    """Return whether our own mail server says that the sender's domain sent this: by DMARC or aligned DKIM.

    Only the topmost result counts, because the server adds its own above whatever a mail brings along.
    """
    domain = sender.rpartition("@")[2]
    for header in mail.get_all("Authentication-Results", [])[:1]:
        clean = _COMMENT.sub(" ", str(header).replace("\n", " ").replace("\r", " "))
        server, *results = clean.split(";")
        is_ours = server.lower().split()[:1] == [authserv_id.lower()]
        return is_ours and any(_proves(result.lower().split(), domain) for result in results)
    return False


def _proves(words: list[str], domain: str) -> bool:
    split = (word.partition("=") for word in words[1:])
    given = {name: value for name, _, value in split}
    match words[:1]:
        case ["dmarc=pass"]:
            return given.get("header.from", domain) == domain
        case ["dkim=pass"]:
            signer = given.get("header.d") or given.get("header.i", "").rpartition("@")[2]
            return bool(signer) and (domain == signer or domain.endswith(f".{signer}"))
        case _:
            return False


def _body(mail: EmailMessage) -> str:
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    text = part.get_content()
    if not isinstance(text, str):
        return ""
    return readable(text, "") if part.get_content_subtype() == "html" else text


def _files(mail: EmailMessage) -> tuple[ChatFile, ...]:
    files: list[ChatFile] = []
    for part in mail.iter_attachments():
        data = part.get_payload(decode=True)
        if isinstance(data, bytes) and data:
            name = part.get_filename() or "file"
            files.append(ChatFile("", str(name), part.get_content_type(), len(data), data))
    return tuple(files)


def written(text: str) -> str:
    """Return what the sender wrote: without the quoted mail below it, and without a signature."""
    lines = text.replace("\r\n", "\n").split("\n")
    if "-- " in lines:
        lines = lines[: lines.index("-- ")]
    at = next((at for at, line in enumerate(lines) if at and _INTRODUCTION.match(line.strip())), len(lines))
    lines = lines[:at]
    while lines and (not lines[-1].strip() or _QUOTED.match(lines[-1])):
        is_quote = bool(_QUOTED.match(lines.pop()))
        if is_quote and (not lines or not _QUOTED.match(lines[-1])):
            lines = _without_introduction(lines)
    return "\n".join(lines).strip()


def _without_introduction(lines: list[str]) -> list[str]:
    """Remove a line above a quote such as `On Monday, Ann wrote:`, which may be wrapped."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if not lines or not lines[-1].rstrip().endswith(":"):
        return lines
    last, lines = lines[-1], lines[:-1]
    is_wrapped = bool(lines) and lines[-1].rstrip().endswith(",") and not any(one.isdigit() for one in last)
    return lines[:-1] if is_wrapped else lines


def _with_subject(body: str, subject: str) -> str:
    """Put the subject above the text, unless the text is a command or a code."""
    is_code = looks_like_code(body) or coded(body) is not None or body.startswith("/")
    return body if is_code or not subject else f"{SUBJECT}{subject}\n\n{body}".strip()


def subject_in(texts: list[str]) -> str:
    """Return the subject of the newest mail among these messages; empty if none has one."""
    newest = next((text for text in reversed(texts) if text.startswith(SUBJECT)), "")
    return newest.partition("\n")[0].removeprefix(SUBJECT)


def mail_for(message: TextMessage, *, own: str, subject: str, references: list[str]) -> EmailMessage:
    """Build the mail for a message. Each attempt has the same Message-ID."""
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"] = own
    mail["To"] = message.chat.partition("/")[0]
    mail["Subject"] = _reply_subject(subject)
    mail["Message-ID"] = f"<{sha256(message.key.encode()).hexdigest()[:32]}@{own.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-replied"
    if references:
        mail["In-Reply-To"] = references[-1]
        mail["References"] = " ".join(dict.fromkeys(references))
    mail.set_content(message.text or "(file)")
    if (file := message.file) is not None:
        kind, _, subtype = file.media_type.partition("/")
        if not _TYPE.fullmatch(file.media_type) or kind in {"message", "multipart"}:
            kind, subtype = "application", "octet-stream"
        mail.add_attachment(file.data, maintype=kind, subtype=subtype, filename=file.name)
    return mail


def _reply_subject(subject: str) -> str:
    if not subject:
        return "Message from your agent"
    return subject if subject.lower().startswith("re:") else f"Re: {subject}"
