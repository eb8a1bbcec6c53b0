"""A real mail system: dovecot keeps the mailboxes, aiosmtpd takes mail; both encrypt."""

import grp
import imaplib
import os
import pwd
import shutil
import smtplib
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from email.utils import make_msgid
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from skerry.testing.ports import reserved
from tests.support.mocks import ROOT, program

BOT: Final = "house@agents.example"
ALICE: Final = "alice@agents.example"
PASSWORD: Final = "wind and tide"  # noqa: S105 - of no mailbox
AUTHSERV: Final = "mx.agents.example"
_ROOTLESS: Final = """
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
}}
"""
"""What lets it run as anybody."""
_CONFIG: Final = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
listen = 127.0.0.1
protocols = imap lmtp
ssl = yes
ssl_cert = <{folder}/server.pem
ssl_key = <{folder}/server.pem
disable_plaintext_auth = yes
auth_mechanisms = plain login xoauth2
first_valid_uid = 0
{rootless}mail_location = sdbox:{folder}/mail/%n
mail_max_userip_connections = 50
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2.conf
}}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%n
}}
namespace inbox {{
  inbox = yes
  mailbox "Sent Mail" {{
    special_use = \\Sent
    auto = create
  }}
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = yes
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp}
  }}
}}
"""

_TOKENS: Final = """
introspection_mode = get
introspection_url = http://127.0.0.1:{port}/introspect?token=
username_attribute = username
active_attribute = active
active_value = true
"""
"""What asks a service whether a token counts, as in RFC 7662."""


class MailSystem:
    """The mail system, as people see it."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.folder = folder
        self.imap, self.imaps, self.lmtp, self.smtp, self.tokens = ports
        self.certificate = str(folder / "server.pem")

    @property
    def settings(self) -> dict[str, Any]:
        """Returns the settings of the agent's account."""
        return {
            "address": BOT,
            "password": PASSWORD,
            "imapHost": "localhost",
            "imapPort": self.imaps,
            "smtpPort": self.smtp,
            "smtpSecurity": "starttls",
            "authservIds": [AUTHSERV],
        }

    def say(self, text: str, sender: str = ALICE, **fields: str) -> str:
        """Lets a person write to the agent; returns the id of the mail."""
        mail = EmailMessage(SMTP)
        mail["Authentication-Results"] = f"{AUTHSERV}; dmarc=pass header.from=agents.example"
        mail["From"], mail["To"], mail["Message-ID"] = sender, BOT, make_msgid(domain="x.example")
        for name, value in fields.items():
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        self.deliver(mail, sender)
        return str(mail["Message-ID"])

    def deliver(self, mail: EmailMessage, sender: str = ALICE) -> None:
        """Hands a mail to the agent's mailbox."""
        with smtplib.LMTP("127.0.0.1", self.lmtp) as lmtp:
            lmtp.sendmail(sender, [BOT], mail.as_bytes())

    def mails(self, user: str = ALICE, folder: str = "INBOX") -> list[EmailMessage]:
        """Returns the mails in a folder, oldest first."""
        context = ssl.create_default_context(cafile=self.certificate)
        with imaplib.IMAP4_SSL("localhost", self.imaps, ssl_context=context, timeout=20) as imap:
            imap.login(user, PASSWORD)
            _, (count,) = imap.select(f'"{folder}"', readonly=True)
            if not int(count or 0):
                return []
            _, answers = imap.fetch("1:*", "(BODY.PEEK[])")
        datas = [answer[1] for answer in answers if isinstance(answer, tuple)]
        return [message_from_bytes(data, policy=default) for data in datas]

    def texts(self, user: str = ALICE) -> list[str]:
        """Returns the plain texts of the mails of a person."""
        bodies = [mail.get_body(("plain",)) for mail in self.mails(user)]
        texts = [str(body.get_content()) for body in bodies if body is not None]
        return [text.replace("\r\n", "\n").strip() for text in texts]

    async def wait_for(self, count: int) -> list[str]:
        """Waits until Alice has as many mails; returns their texts."""
        with anyio.fail_after(120):
            while True:
                texts = await anyio.to_thread.run_sync(self.texts)
                if len(texts) >= count:
                    return texts
                await anyio.sleep(0.1)

    @property
    def taken(self) -> list[str]:
        """Returns recipient and id of each mail that the SMTP server took."""
        log = self.folder / "taken"
        return log.read_text().splitlines() if log.exists() else []


@contextmanager
def mail_system() -> Iterator[MailSystem]:
    """Runs the mail system; its data is where the user who owns the mailboxes may read."""
    dovecot = shutil.which("dovecot") or shutil.which("/usr/sbin/dovecot")
    assert dovecot is not None, "dovecot is missing: make test-all installs it"
    python = program("SKERRY_SMTPD_PYTHON", ".venv-aiosmtpd/bin/python")
    user, group = _owner()
    with ExitStack() as stack:
        ports = [stack.enter_context(reserved()) for _ in range(5)]
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="skerry-mail-")))
        post = MailSystem(folder, ports)
        _prepare(post, user, group)
        arguments = [dovecot, "-F", "-c", str(folder / "dovecot.conf")]
        more = (*map(str, (post.smtp, post.lmtp)), BOT, PASSWORD, post.certificate)
        script = str(ROOT / "tests/support/smtpd.py")
        for command in (arguments, [python, script, *more, str(folder / "taken")]):
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(_end, process)
        _wait_until_ready(post)
        yield post


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()


def _owner() -> tuple[str, str]:
    """Returns the user and the group that own the mailboxes; root may not read mail."""
    if os.geteuid() == 0:
        return "mail", "mail"
    return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


def _prepare(post: MailSystem, user: str, group: str) -> None:
    folder = post.folder
    for name in ("run", "state", "mail"):
        (folder / name).mkdir(parents=True)
    (folder / "users").write_text("".join(f"{name}:{PASSWORD}\n" for name in (BOT, ALICE)))
    (folder / "oauth2.conf").write_text(_TOKENS.format(port=post.tokens))
    _make_certificate(Path(post.certificate))
    rootless = "" if os.geteuid() == 0 else _ROOTLESS.format(user=user, group=group)
    names = {"folder": folder, "user": user, "group": group, "rootless": rootless}
    ports = {"imap": post.imap, "imaps": post.imaps, "lmtp": post.lmtp}
    (folder / "dovecot.conf").write_text(_CONFIG.format(**names, **ports))
    if os.geteuid() == 0:
        shutil.chown(folder / "mail", user, group)
        folder.chmod(0o711)


def _make_certificate(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)  # noqa: TID251 - a certificate is checked by the machine's clock
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))


def _wait_until_ready(post: MailSystem) -> None:
    for _ in range(600):
        try:
            post.mails(BOT)
            smtplib.SMTP("127.0.0.1", post.smtp).quit()
        except (OSError, imaplib.IMAP4.error):
            anyio.run(anyio.sleep, 0.1)
        else:
            return
    raise AssertionError(f"the mail system does not answer; see {post.folder}/dovecot.log")
