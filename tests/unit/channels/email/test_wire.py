"""Heads and parts of mails: senders, threads, files, and mails that must not be answered."""

import base64

import pytest

from skerry.channels.email import wire
from skerry.channels.email.imap_wire import ImapSyntaxError, Part, parse, parts, quoted
from skerry.model.inbound import AttachmentKind

OWN = "house@agents.example"


def head(*lines: str) -> wire.MailHead:
    return wire.read_head("\r\n".join([*lines, "", ""]).encode())


@pytest.mark.parametrize(
    ("field", "address", "name"),
    [
        ("alice@people.example", "alice@people.example", ""),
        ("<Alice@People.Example>", "alice@people.example", ""),
        ('"Alice \\"A\\" B" <a@b.example>', "a@b.example", 'Alice "A" B'),
        ("=?utf-8?q?Al=C3=AFce?= <a@b.example>", "a@b.example", "Alïce"),
        ('"bob@evil.example" <a@b.example>', "a@b.example", "bob@evil.example"),
        ("=?utf-8?q?x=40y=2Eexample_=3C?= <a@b.example>", "a@b.example", "x@y.example <"),
        ("Ålice <a@b.example>", "a@b.example", "Ålice"),
    ],
)
def test_a_sender_has_one_address(field: str, address: str, name: str) -> None:
    read = head(f"From: {field}")
    assert (read.address, read.name) == (address, name)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["a@b.example, c@d.example"],
        ["a@b.example <c@d.example>"],
        ["<a@b.example><c@d.example>"],
        ["a@b.example", "c@d.example"],
        ["a@b.example (x) c@d.example"],
        ["group: a@b.example;"],
        ['"a"@b.example'],
        ["a@b.example\x00"],
        ["<a@[127.0.0.1]>"],
        ["x" * 3000 + " <a@b.example>"],
        [f"=?utf-8?b?{base64.b64encode(b'a@b.example').decode()}?="],
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_a_sender_that_can_be_read_in_two_ways_is_none(fields: list[str]) -> None:
    assert head(*(f"From: {field}" for field in fields)).address == ""


def test_a_thread_is_named_by_its_first_mail() -> None:
    first = head("From: a@b.example", "Message-ID: <1@x>", "Subject: =?utf-8?q?H=C3=A9?=\r\n llo")
    assert (first.thread, first.subject) == ("1@x", "Hé llo")
    reply = head("Message-ID: <3@x>", "References: <1@x>\r\n <2@x>", "In-Reply-To: <2@x>")
    assert (reply.thread, reply.references) == ("1@x", ("1@x", "2@x"))
    assert head("Message-ID: <3@x>", "In-Reply-To: <2@x>").thread == "2@x"
    assert head("Message-ID: no id", "References: <a b> <" + "x" * 300 + ">").thread == ""


@pytest.mark.parametrize(
    "line",
    [
        "Auto-Submitted: auto-replied",
        "Auto-submitted: auto-generated; owner=x",
        "Precedence: Bulk",
        "Precedence: list",
        "List-Id: <sea.example>",
        "List-Unsubscribe: <mailto:x@y>",
        "X-Autoreply: yes",
        "X-Auto-Response-Suppress: DR, OOF, AutoReply",
        "Return-Path: <>",
        "Content-Type: multipart/report; report-type=delivery-status",
    ],
)
def test_what_a_program_wrote_is_not_answered(line: str) -> None:
    assert wire.unanswered(head("From: a@b.example", "Return-Path: <a@b.example>"), OWN) == ""
    assert wire.unanswered(head("From: a@b.example", "Auto-Submitted: no"), OWN) == ""
    assert wire.unanswered(head("From: a@b.example", line), OWN) != ""


@pytest.mark.parametrize(
    "sender", ["House@agents.example", "MAILER-DAEMON@x.example", "no-reply@x.example", "nobody"]
)
def test_neither_the_account_nor_nobody_is_answered(sender: str) -> None:
    assert wire.unanswered(head(f"From: {sender}"), OWN) != ""


def test_a_structure_names_texts_and_files_by_number() -> None:
    line = (
        b'* 1 FETCH (BODYSTRUCTURE ((("text" "plain" ("charset" "iso-8859-1") NIL NIL "7bit" 6 1'
        b' NIL NIL NIL NIL)("text" "html" NIL NIL NIL "base64" 8 1 NIL NIL NIL NIL) "alternative"'
        b' ("boundary" "x") NIL NIL)("image" "png" ("name" "a.png") "<c>" NIL "base64" 400 NIL'
        b' ("attachment" ("filename" "=?utf-8?q?=C3=A9.png?=")) NIL NIL)'
        b'("message" "rfc822" NIL NIL NIL "7bit" 90 ("x") ("text" "plain") 3 NIL'
        b' ("attachment" NIL)) "mixed" ("boundary" "y") NIL NIL))'
    )
    response = parse([line])
    (listed,) = [word for word in response.words if isinstance(word, list)]
    found = parts(listed[1])
    assert [part.number for part in found] == ["1.1", "1.2", "2", "3"]
    plain, html = wire.texts(found)
    assert ([part.number for part in plain], [part.number for part in html]) == (["1.1"], ["1.2"])
    image, mail = wire.attachments(found, "7.5")
    assert (image.kind, image.handle, image.name, image.size) == (
        AttachmentKind.IMAGE,
        "7.5/2/base64",
        "é.png",
        300,
    )
    assert (mail.handle, mail.name, mail.kind) == ("7.5/3/7bit", "mail.eml", AttachmentKind.FILE)


def test_pictures_that_belong_to_the_text_are_no_files() -> None:
    logo = Part("1.2", "image/png", {}, "base64", 4, "inline", "logo.png", "related")
    photo = Part("2", "image/jpeg", {}, "base64", 4, "inline", "photo.jpg", "mixed")
    files = wire.attachments([Part("1.1", "text/html", {}, "7bit", 4), logo, photo], "7.5")
    assert [file.name for file in files] == ["photo.jpg"]


def test_names_of_files_are_decoded_and_printable() -> None:
    named = Part("2", "a/b", {}, "", 4, "attachment", "utf-8''%E2%82%AC%0a.txt")
    (file,) = wire.attachments([Part("1", "text/plain", {}, "", 1), named], "7.5")
    assert file.name == "€.txt"


@pytest.mark.parametrize(
    ("data", "encoding", "decoded"),
    [
        (b"aGVs\r\nbG8=\r\n", "base64", b"hello"),
        (b"aGVsbG8", "base64", b"hello"),
        (b"aGVsb", "base64", b"hel"),
        (b"caf=C3=A9=\r\n!", "quoted-printable", b"caf\xc3\xa9!"),
        (b"as it is", "8bit", b"as it is"),
    ],
)
def test_parts_are_decoded_also_where_they_were_cut(
    data: bytes, encoding: str, decoded: bytes
) -> None:
    assert wire.decoded(data, encoding) == decoded


def test_an_unknown_charset_is_read_as_utf8() -> None:
    assert wire.as_text("é".encode(), "no-such") == "é"
    assert wire.as_text("é".encode("latin-1"), "ISO-8859-1") == "é"
    assert wire.as_text(b"\xff", "utf-8") == "\ufffd"


@pytest.mark.parametrize("line", [b"* 1 FETCH (a", b"* a) (b", b"* " + b"(" * 90 + b")" * 90])
def test_responses_that_are_not_well_formed_are_refused(line: bytes) -> None:
    with pytest.raises(ImapSyntaxError):
        parse([line])


def test_arguments_cannot_add_commands() -> None:
    assert quoted('a"b\\c') == '"a\\"b\\\\c"'
    for text in ("a\r\nb", "é", "a\0"):
        with pytest.raises(ImapSyntaxError):
            quoted(text)


@pytest.mark.parametrize("peer", ["alice", "a@b\r\nRCPT TO:<c@d>", "a@b> <c@d", "", "a b@c"])
def test_a_peer_that_is_no_address_is_refused(peer: str) -> None:
    assert wire.address_of(peer) == ""
    assert wire.address_of(f"unverified:{peer}") == ""


@pytest.mark.abuse(111)
@pytest.mark.parametrize("charset", ["punycode", "IDNA", "unicode-escape"])
def test_a_codec_that_no_mail_has_is_not_used(charset: str) -> None:
    assert wire.as_text(b"a\\x41-bcd", charset) == "a\\x41-bcd"


@pytest.mark.parametrize(
    "address", [".a@b.example", "a..b@c.example", "a@.example", "a@b..example"]
)
def test_an_address_that_no_mail_can_be_sent_to_is_none(address: str) -> None:
    assert wire.read_head(f"From: {address}\r\n".encode()).address == ""
    assert wire.address_of(address) == ""
