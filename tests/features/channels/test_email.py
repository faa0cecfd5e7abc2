"""E-mail: who wrote a mail and whether that's certain, threads, quotes, and servers that fail."""

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from agent.world import process
from config.given import loaded
from fakes.exchanges import Accept
from features.channels.lab import echo
from features.channels.mail_lab import HAS_DOVECOT, PASSWORD, FakeSmtp, dovecot
from features.channels.text_lab import ANN, BOB, SIDES, MailSide, address, talking
from holdfast.chaos import ChaosServer, closed_port
from holdfast.config.sources import BadConfiguration
from holdfast.decisions.deliveries import Arrived, DidNotArrive, NotAccepted
from holdfast.features.channels.channel_log import channel_state
from holdfast.features.channels.cli.doctor import ask_platforms
from holdfast.features.channels.configured import channel_options
from holdfast.features.channels.email.channel import mail_server
from holdfast.features.channels.email.imap import MailServer, MailTrouble, open_mailbox, quoted
from holdfast.features.channels.email.messages import is_authentic, read_mail, written
from holdfast.features.channels.email.smtp import send_mail
from host.chat_settings import TARGET
from tables import for_each_row

OURS = "mx.us.example"
CHANNEL = """
[[channels]]
name = "mail"
kind = "email"
token = "{token}"
address = "{address}"
imap_url = "{imap}"
smtp_url = "{smtp}"
authserv_id = "{authserv}"
"""


@for_each_row(
    ("header", "is_certain"),
    [
        ("mx.us.example; dmarc=pass header.from=b.example", True),
        ("mx.us.example 1; spf=fail; dkim=pass header.d=b.example header.s=x", True),
        ("mx.us.example; dkim=pass header.i=@b.example", True),
        ("mx.us.example; dkim=pass (2048-bit key) header.d=example", True),
        ("mx.us.example; dkim=pass header.d=evil.example", False),
        ("mx.us.example; dkim=pass header.d=notb.example", False),
        ("mx.us.example; dmarc=fail header.from=b.example; spf=pass smtp.mailfrom=b.example", False),
        ("mx.us.example; dmarc=pass header.from=evil.example", False),
        ("mx.us.example; x=(dmarc=pass) dmarc=none", False),
        ("mx.evil.example; dmarc=pass header.from=b.example", False),
        ("mx.us.example.evil; dmarc=pass header.from=b.example", False),
        ("", False),
    ],
)
async def test_a_sender_is_certain_only_if_our_own_server_says_so(header: str, *, is_certain: bool) -> None:
    """P11: by DMARC or by an aligned signature, in the topmost result alone."""
    mail = BytesParser(policy=policy.default).parsebytes(f"Authentication-Results: {header}\n\n".encode())
    assert is_authentic(mail, "a@b.example", authserv_id=OURS) is is_certain
    below = f"Authentication-Results: mx.other.example; none\nAuthentication-Results: {header}\n\n"
    assert not is_authentic(
        BytesParser(policy=policy.default).parsebytes(below.encode()), "a@b.example", authserv_id=OURS
    )


@for_each_row(
    "headers",
    [
        "From: a@b.example, c@d.example",
        "From: a@b.example\nFrom: c@d.example",
        "From: not an address",
        "From: a@b.example\nAuto-Submitted: auto-replied",
        "From: a@b.example\nPrecedence: bulk",
        "From: a@b.example\nReturn-Path: <>",
        "From: a@b.example\nList-Id: <l.b.example>",
        "From: agent@us.example",
    ],
)
async def test_programs_lists_and_unclear_senders_get_no_answer(headers: str) -> None:
    """P11: an answer to one could go to a stranger, or start an exchange without end."""
    raw = f"{headers}\n\nhi".encode()
    assert read_mail(raw, authserv_id="none", own="agent@us.example", size_bytes=len(raw)) is None


def test_only_what_the_sender_wrote_is_left_of_a_text() -> None:
    assert written("Yes.\n\nOn Monday, Ann wrote:\n> question\n> more\n") == "Yes."
    assert written("Yes.\r\nOn Mon, 1 Jan 2027 at 10:00,\r\nAnn <a@b> wrote:\r\n\r\n> question\r\n") == "Yes."
    assert written("Yes.\n-- \nAnn") == "Yes."
    assert written("Yes.\n-----Original Message-----\nFrom: Bob\nold") == "Yes."
    assert written("> question\n\nAnswer between.\n> more") == "> question\n\nAnswer between."
    assert written("These are the steps:\n1. one") == "These are the steps:\n1. one"


def test_html_files_and_large_mails_are_read() -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"], mail["Message-ID"] = "Ann <A@B.example>", "Plans", "<1@b>"
    mail.set_content("<p>Hello <b>you</b></p>", subtype="html")
    mail.add_attachment(b"abc", maintype="text", subtype="plain", filename="a.txt")
    raw = mail.as_bytes()
    found = read_mail(raw, authserv_id="none", own="agent@us.example", size_bytes=len(raw))
    assert found is not None
    assert (found.user, found.name) == ("a@b.example", "Ann")
    assert found.text.startswith("Subject: Plans\n\nHello")
    assert [(one.name, one.data) for one in found.files] == [("a.txt", b"abc")]
    cut = read_mail(raw[:200], authserv_id="none", own="agent@us.example", size_bytes=10**9)
    assert cut is not None
    assert [one.size_bytes for one in cut.files] == [10**9]


@pytest.mark.skipif(not HAS_DOVECOT, reason="needs dovecot")
async def test_answers_stay_in_their_thread_and_what_was_there_before_is_left_alone() -> None:
    """P14: a thread is a conversation, with its subject; forged and unknown senders reach nothing."""
    async with SIDES["email"]() as side, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        assert isinstance(side, MailSide)
        side.say(BOB, "from before")
        async with talking(world, side):
            side.say(ANN, "Hello, agent", subject="Plans")
            await side.changed.until(lambda: len(side.texts(ANN)) == 1)
            side.say(ANN, "And\n> Subject: x", subject="Re: Plans")
            await side.changed.until(lambda: len(side.texts(ANN)) == 2)
            side.say(ANN, "forged", results="mx.us.example; dmarc=fail")
            side.say("eve", "hi")
            side.fake.refused = address(BOB)
            side.say(BOB, "hi there")
            side.say(ANN, "last one", subject="Re: Plans")
            await side.changed.until(lambda: len(side.texts(ANN)) == 3)
            state = await channel_state(world.store, "chn_mail")
    first, second, third = side.fake.mails[address(ANN)]
    assert first.subject == second.subject == third.subject == "Re: Plans"
    ids = side.ids(ANN)
    assert first.references == (ids[0],)
    assert second.references == (ids[0], ids[1])
    assert third.text == "re: Subject: Re: Plans\n\nlast one"
    assert len({first.message_id, second.message_id, third.message_id}) == 3
    assert not side.fake.mails[address("eve")]
    rejected = {one.intended.chat for one in state.outbox.deliveries.values() if one.state == "rejected"}
    assert rejected == {side.chat(BOB)}
    assert chaos.seen.requests_seen == 4


@pytest.mark.skipif(not HAS_DOVECOT, reason="needs dovecot")
async def test_a_mailbox_is_configured_and_checked_by_the_doctor() -> None:
    """P12: missing and wrong settings get a clear error."""
    text, box = TARGET.format(url="http://127.0.0.1:1"), f"imap://127.0.0.1:{dovecot().port}"
    async with FakeSmtp() as smtp:
        usual = {
            "token": PASSWORD,
            "address": "agent@us.example",
            "imap": box,
            "smtp": f"smtp://127.0.0.1:{smtp.port}",
            "authserv": OURS,
        }

        async def state(**changes: str) -> tuple[str, str]:
            settings = loaded(text + CHANNEL.format(**(usual | changes))).settings
            (found,) = await ask_platforms(settings)
            return found.state, found.text

        assert await state() == ("ok", "connected as agent@us.example")
        assert (await state(authserv="none"))[0] == "note"
        wrong = await state(token="wrong-password")  # noqa: S106
        assert (wrong[0], "AUTHENTICATIONFAILED" in wrong[1], "wrong-password" in wrong[1]) == (
            "fault",
            True,
            False,
        )
        with closed_port() as port:
            assert (await state(smtp=f"smtp://127.0.0.1:{port}"))[1].startswith("Can't send mails")
        open_to_all = loaded(text + CHANNEL.format(**(usual | {"authserv": "none"}))).settings.channels[0]
        assert channel_options(open_to_all).approvers == ("-",), "no one approves if anyone can be anyone"
    for changes, said in (
        ({"address": "Agent"}, "address in lowercase"),
        ({"imap": "https://x"}, "such as imaps://"),
        ({"authserv": ""}, "Authentication-Results"),
    ):
        with pytest.raises(BadConfiguration, match=said):
            loaded(text + CHANNEL.format(**(usual | changes)))


async def test_a_mail_arrives_may_have_arrived_or_certainly_did_not() -> None:
    """P14: only from the final dot on, the outcome of a cut connection is unknown."""
    async with FakeSmtp() as smtp:
        server = MailServer(host="127.0.0.1", port=smtp.port, security="plain")

        async def sent(to: str = "a@b.example", message: bytes = b"Subject: x\r\n\r\n.\r\n..b\r\n") -> object:
            return await send_mail(server, user="me", password="p", sender="me@x", to=to, message=message)  # noqa: S106

        assert await sent() == Arrived("")
        assert smtp.mails["a@b.example"][0].text == ".\n..b"
        smtp.refused = "no@b.example"
        assert isinstance(await sent("no@b.example"), NotAccepted)
        smtp.scripts.add("message", [Accept()])
    assert isinstance(await sent(), DidNotArrive)


@pytest.mark.skipif(not HAS_DOVECOT, reason="needs dovecot")
async def test_a_mailbox_that_is_wrong_says_why_without_the_password() -> None:
    server = mail_server(f"imap://127.0.0.1:{dovecot().port}")
    with pytest.raises(MailTrouble, match="AUTHENTICATIONFAILED"):
        async with open_mailbox(server, user="agent@us.example", password="other"):  # noqa: S106
            pass
    with pytest.raises(MailTrouble, match="only printable"):
        quoted("a\r\nb")
    assert mail_server("imaps://h").port == 993
    assert (mail_server("smtp://h").security, mail_server("smtp://h").port) == ("starttls", 587)
