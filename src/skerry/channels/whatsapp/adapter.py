"""One WhatsApp number: receives by requests of Meta, sends by the Graph API."""

import hashlib
import hmac
import logging
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from skerry.channels.whatsapp import outbound, wire
from skerry.channels.whatsapp.api import LATER, LOGIN, ApiError, Failure, GraphApi
from skerry.channels.whatsapp.config import WhatsAppAccount
from skerry.infra.backoff import Backoff
from skerry.sdk.channel_host import ChannelHost, FormFile, Outcome
from skerry.sdk.channel_posts import Intake
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    DeliveryDelayedError,
    DeliveryRefusedError,
    InboundMessage,
    Inbox,
    MediaError,
    OutboundMedia,
    OutboundPart,
    Post,
    PostAnswer,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(base=1.0, cap=60.0)
"""Waits between attempts to reach the server."""
LOGIN_WAIT: Final = 300.0
"""Seconds between two attempts with a token that was refused."""
LOOK_WAIT: Final = 900.0
"""Seconds after which a working token is looked at again."""
SETTLE_SECONDS: Final = 8.0
"""Seconds for which a report about a part is waited for."""
OLDEST_SECONDS: Final = 8 * 86_400
"""Age of a message that is not taken any more: Meta repeats a request for up to seven days."""
_MOST_FATES: Final = 1000
_MOST_CHALLENGE: Final = 256


class WhatsAppAdapter:
    """Implements `ports.channel.ChannelAdapter`, `TakesPosts`, `Fetches`, `Reacts`, `Probes`."""

    channel = wire.CHANNEL
    text_limit = outbound.MOST_TEXT
    text_unit = TextUnit.UTF16
    capabilities = Capabilities(
        reactions=True,
        buttons=True,
        media_in=True,
        media_out=True,
        rich_text=True,
        late_refusals=True,
    )
    settle_seconds = SETTLE_SECONDS

    def __init__(self, settings: WhatsAppAccount, host: ChannelHost, api: GraphApi) -> None:
        self.account = host.account
        self.state = AccountState()
        self._settings = settings
        self._host = host
        self._api = api
        self._intake = Intake()
        self._failures = 0
        self._fates: dict[str, bool] = {}
        """Parts of which a status was reported, oldest first; False for one that failed."""
        self._reported = anyio.Event()
        self._quiet_until = 0.0
        """Time of the event loop until which the server wants no request."""

    async def run(self, inbox: Inbox) -> None:
        """Takes requests and looks after the token until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._intake.run, inbox)
            while True:
                seconds = await self._look()
                await anyio.sleep(seconds)

    async def _look(self) -> float:
        """Asks the server for the number; returns after how many seconds to ask again."""
        try:
            mine = wire.number.decode(await self._api.number())
        except (ApiError, msgspec.DecodeError) as error:
            return self._note(error)
        self._failures = 0
        name = " ".join(f"{mine.verified_name} {mine.display_phone_number}".split())
        self.state = AccountState(ConnectionState.CONNECTED, name=name)
        return LOOK_WAIT

    def _note(self, error: Exception) -> float:
        """Notes why the server gave nothing; returns for how many seconds to wait."""
        self._failures += 1
        name, message = self.state.name, str(error)
        code = error.code if isinstance(error, ApiError) else -1
        if code in LOGIN or code == 100:  # noqa: PLR2004 - of a look: there is no such number
            self._need_login(message)
            return LOGIN_WAIT
        remedy = "It is tried again; `skerry channels status --probe` asks at once."
        self.state = AccountState(ConnectionState.RETRYING, message, remedy, name)
        if self._failures == 1:
            logger.warning("whatsapp/%s: %s", self.account, message)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return retry_after or WAITS.delay(self._failures)

    def _need_login(self, message: str) -> None:
        remedy = (
            "Make a new token of the system user, and look at the number in WhatsApp Manager, then"
            f" run `skerry channels login whatsapp --account {self.account}`."
        )
        self.state = AccountState(ConnectionState.NEEDS_LOGIN, message, remedy, self.state.name)
        logger.error("whatsapp/%s: %s", self.account, message)

    async def posted(self, post: Post) -> PostAnswer:
        """Answers a request of Meta, or of whoever found the address."""
        if post.method == "GET":
            return self._verified(post)
        if not self._is_signed(post):
            return PostAnswer(401, b"the signature is wrong")
        try:
            values = [one for one in wire.values(post.body) if self._is_mine(one)]
        except msgspec.DecodeError as error:
            # Meta would send it again for days, and it would be no more readable.
            logger.warning("whatsapp/%s: a request is unreadable: %s", self.account, error)
            return PostAnswer()
        await self._intake.take([one for value in values for one in self._messages(value)])
        settled = [await self._take_statuses(value) for value in values]
        return PostAnswer() if all(settled) else PostAnswer(503, b"send it again")

    def _verified(self, post: Post) -> PostAnswer:
        """Answers the question that Meta asks when the address is registered."""
        token = self._settings.verify_token
        wanted = token.get_secret_value() if token else ""
        given, challenge = post.query.get("hub.verify_token", ""), post.query.get("hub.challenge")
        is_known = wanted and hmac.compare_digest(given.encode(), wanted.encode())
        if post.query.get("hub.mode") != "subscribe" or not is_known or not challenge:
            return PostAnswer(403, b"the verify token is wrong")
        return PostAnswer(200, challenge[:_MOST_CHALLENGE].encode())

    def _is_signed(self, post: Post) -> bool:
        secret = self._settings.app_secret
        key = secret.get_secret_value().encode() if secret else b""
        made = hmac.new(key, post.body, hashlib.sha256).hexdigest()
        given = post.headers.get("x-hub-signature-256", "")
        return bool(key) and hmac.compare_digest(given.encode(), f"sha256={made}".encode())

    def _is_mine(self, value: wire.Value) -> bool:
        number = value.metadata.phone_number_id
        if number == self._settings.phone_number_id:
            return True
        logger.warning(
            "whatsapp/%s: a request is about the number %s, which is not the one of this account;"
            " give that number a callback of its own",
            self.account,
            number[:32],
        )
        return False

    def _messages(self, value: wire.Value) -> list[InboundMessage]:
        now, taken = self._host.clock.now_ms(), list[InboundMessage]()
        for raw in value.messages:
            try:
                one = wire.message.decode(raw)
            except msgspec.DecodeError as error:
                # A kind that Meta changed must not hold back all others.
                logger.warning("whatsapp/%s: a message is unreadable: %s", self.account, error)
                continue
            if wire.seconds(one) < now // 1000 - OLDEST_SECONDS:
                logger.warning("whatsapp/%s: a message of long ago is not taken", self.account)
                continue
            message = wire.inbound(one, value, self.account, now)
            if message is not None:
                taken.append(message)
        return taken

    async def _take_statuses(self, value: wire.Value) -> bool:
        """Notes what became of parts; returns whether all could be noted."""
        noted = True
        for raw in value.statuses:
            try:
                status = wire.status.decode(raw)
            except msgspec.DecodeError as error:
                logger.warning("whatsapp/%s: a status is unreadable: %s", self.account, error)
                continue
            nonce, failed = status.biz_opaque_callback_data, status.status == "failed"
            if not nonce:
                continue
            self._fates.pop(nonce, None)
            self._fates[nonce] = not failed
            if len(self._fates) > _MOST_FATES:
                del self._fates[next(iter(self._fates))]
            self._reported.set()
            self._reported = anyio.Event()
            if failed:
                failure = status.errors[0] if status.errors else Failure()
                noted &= await self._host.reports.refused(nonce, _explained(failure))
        return noted

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part, with its name, which comes back with what is reported about it."""
        self._refuse_while_quiet()
        self._fates.pop(part.nonce, None)  # of an earlier attempt
        try:
            if part.more.media is not None:
                content = await self._file(part, part.more.media)
            else:
                content = outbound.worded(part)
            answer = await self._api.post(outbound.addressed(part) | content)
        except ApiError as error:
            raise self._undelivered(error) from error
        try:
            return Receipt(tuple(one.id for one in wire.sent.decode(answer).messages))
        except msgspec.DecodeError:
            return Receipt(())  # it was accepted; nothing needs its id

    async def _file(self, part: OutboundPart, media: OutboundMedia) -> dict[str, Any]:
        try:
            data = await anyio.to_thread.run_sync(Path(media.path).read_bytes)
        except OSError as error:
            message = f"The file {media.path} cannot be read: {error.strerror}."
            raise DeliveryRefusedError(message) from None
        caption = part.text.strip()
        if len(caption.encode("utf-16-le")) // 2 > outbound.MOST_CAPTION:
            message = f"WhatsApp takes {outbound.MOST_CAPTION} characters below a file."
            raise DeliveryRefusedError(f"{message} Send the text apart.")
        kind = outbound.sent_as(media, len(data), caption)
        mime, name = media.mime or "application/octet-stream", media.name or Path(media.path).name
        answer = await self._api.upload(FormFile(name, mime, data))
        try:
            uploaded = wire.media.decode(answer).id
        except msgspec.DecodeError as error:
            raise DeliveryDelayedError(f"The upload of {name} has no id: {error}") from None
        return outbound.file(kind, uploaded, name, caption)

    def _undelivered(self, error: ApiError) -> Exception:
        """Returns the error by which the sender of the outbox decides."""
        if error.code in LATER:
            if error.code not in {131056, 131000}:  # those are about one person alone
                self._quiet_until = anyio.current_time() + (error.retry_after or 0)
            return DeliveryDelayedError(str(error), error.retry_after)
        if error.code in LOGIN:
            self._need_login(str(error))
            return DeliveryDelayedError(str(error))
        if not error.is_sent:
            return DeliveryDelayedError(str(error))
        if error.code >= 0:
            return DeliveryRefusedError(_explained_text(error.code, str(error)))
        return error  # nobody knows whether it arrived, but a status may tell

    def _refuse_while_quiet(self) -> None:
        seconds = self._quiet_until - anyio.current_time()
        if seconds > 0:
            raise DeliveryDelayedError("WhatsApp's rate limit is reached.", seconds)

    async def typing(self, to: ReplyTo) -> None:
        """Marks the message as read, and shows for up to 25 seconds that an answer is written."""
        message_id = outbound.plain_id(to.message_id)
        if self._quiet_until > anyio.current_time() or not message_id:
            return
        shown = {"status": "read", "message_id": message_id}
        await self._api.post({**shown, "typing_indicator": {"type": "text"}})

    async def settle(self, part: OutboundPart) -> Settlement:
        """Waits for a report about the part; the API has no way to ask for one."""
        with anyio.move_on_after(self.settle_seconds):
            while part.nonce not in self._fates:
                await self._reported.wait()
        match self._fates.get(part.nonce):
            case True:
                return Settlement.DELIVERED
            case False:
                return Settlement.ABSENT
            case None:
                return Settlement.UNKNOWN

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the reaction of the number; an empty emoji removes it."""
        message_id = outbound.plain_id(to.message_id)
        if not message_id:
            return  # the address of a chat, which has no message
        reaction = {"message_id": message_id, "emoji": emoji}
        body = {**outbound.recipient(to), "type": "reaction", "reaction": reaction}
        try:
            await self._api.post(body)
        except ApiError as error:
            raise self._undelivered(error) from error

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that a person sent."""
        most = min(limit, self._settings.media_max_mb * 1_000_000)
        name = attachment.name
        try:
            described = wire.media.decode(await self._api.media(attachment.handle))
        except (ApiError, msgspec.DecodeError) as error:
            raise MediaError(f"{name} cannot be fetched: {error}") from error
        fetched = await self._api.download(described.url, most)
        if fetched is None:
            raise MediaError(f"{name} cannot be fetched: its address is none of Meta.")
        if fetched.outcome is not Outcome.ALLOW or fetched.status != 200:  # noqa: PLR2004 - HTTP's OK
            reason = f"it has more than {most} bytes" if fetched.truncated else fetched.reason
            raise MediaError(f"{name} cannot be fetched: {reason}")
        return fetched.body

    async def probe(self) -> AccountState:
        """Returns the state after asking the server for the number."""
        await self._look()
        return self.state


def _explained(failure: Failure) -> str:
    return _explained_text(failure.code, f"WhatsApp did not deliver it, {failure.text}")


def _explained_text(code: int, text: str) -> str:
    """Returns an error with what a person can do about it."""
    if code == 131047:  # noqa: PLR2004 - Meta's code
        return (
            f"{text}. More than 24 hours have passed since the person wrote; they must write first."
        )
    if code == 131026:  # noqa: PLR2004 - Meta's code
        return f"{text}. The number has no WhatsApp, has blocked this one, or is an old version."
    return text


def open_account(settings: WhatsAppAccount, host: ChannelHost) -> WhatsAppAdapter:
    """Returns the adapter of an account."""
    token = settings.access_token.get_secret_value() if settings.access_token else ""
    api = GraphApi(str(settings.api_root), settings.phone_number_id, token)
    return WhatsAppAdapter(settings, host, api)
