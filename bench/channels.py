"""Chat platforms: CPU of a message beyond its turn, a burst, idle accounts, refusals, the start.

The platform is our strict Bot API in this process; only the gateway's processes are counted.
"""

import statistics
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import msgspec

from bench.measure import Gateway, driver, figure, gateway, model_server, settled
from skerry.infra.channels import PLATFORMS
from skerry.testing.gateway import model_config
from skerry.testing.telegram_server import TelegramServer
from skerry.testing.token_issuer import pem, signing_key

ROUNDS: Final = 5
MESSAGES: Final = 100
BURST: Final = 1000
CHATS: Final = 50
ACCOUNTS: Final = 50
IDLE_SECONDS: Final = 30.0
REFUSALS: Final = 20
NOWHERE: Final = "http://127.0.0.1:9"
"""An address without a server, for accounts that only start."""
NUMBERS: Final = {"number": "+15550001", "phoneNumberId": "106540352242922"}
"""Credentials that are numbers, and have no secret."""
CREDENTIAL: Final = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"


def telegram(server: TelegramServer, **settings: Any) -> dict[str, Any]:
    """Returns the section of an account that answers all senders."""
    account = {"botToken": server.token, "apiRoot": server.root}
    return {**account, "dmPolicy": "open", "allowFrom": ["*"], **settings}


@contextmanager
def connected(channels: Mapping[str, Any]) -> Iterator[Gateway]:
    """Runs a gateway with these channels and the stub as its model."""
    with (
        TemporaryDirectory(prefix="skerry-") as home,
        model_server() as model,
        gateway(Path(home), {**model_config(model.base_url), "channels": channels}) as running,
    ):
        yield running


async def message() -> None:
    """Prints the CPU of a message of a platform and its reply, less that of a client's turn."""
    async with TelegramServer() as server:
        with connected({"telegram": telegram(server)}) as running:
            async with driver(running) as client:
                await client.turns(50, ["warm"])
                server.say("warm")
                await server.wait_for(1)
                await settled(running)
                turns, messages = [], []
                for position in range(ROUNDS):
                    before = running.tree.cpu()
                    await client.turns(MESSAGES, [f"plain-{position}"])
                    turns.append((running.tree.cpu() - before) / MESSAGES * 1e3)
                    before = running.tree.cpu()
                    for number in range(MESSAGES):
                        server.say("hello", user=100 + position)
                        await server.wait_for(number + 1, chat=100 + position)
                    messages.append((running.tree.cpu() - before) / MESSAGES * 1e3)
    beyond = [whole - turn for whole, turn in zip(messages, turns, strict=True)]
    figure(
        "CPU of a message and its reply beyond the turn, ms",
        "<= 2",
        f"{statistics.median(beyond):.2f}",
        f"a client's turn {statistics.median(turns):.2f}, a message"
        f" {statistics.median(messages):.2f}; long polling, typing, one part; {ROUNDS} rounds of"
        f" {MESSAGES}",
    )


async def burst() -> None:
    """Prints the cost of a burst: messages of many chats at once."""
    async with TelegramServer() as server:
        with connected({"telegram": telegram(server)}) as running:
            server.say("warm")
            await server.wait_for(1)
            await settled(running)
            before, begin = running.tree.cpu(), anyio.current_time()
            for number in range(BURST):
                server.say(f"m{number}", user=100 + number % CHATS)
            with anyio.fail_after(600):
                for chat in range(100, 100 + CHATS):
                    number = 0
                    while not _answered(texts := await server.wait_for(number, chat), chat):
                        number = len(texts) + 1
            seconds, cpu = anyio.current_time() - begin, running.tree.cpu() - before
    figure(
        f"{BURST} messages of {CHATS} chats at once, CPU s",
        "",
        f"{cpu:.2f}",
        f"all answered after {seconds:.1f} s; messages that wait in a chat are answered together",
    )


def _answered(texts: list[str], chat: int) -> bool:
    """Returns whether the last message of a chat is in one of its answers."""
    last = BURST - CHATS + chat - 100
    return any(f"m{last}" in text.split() or text.endswith(f"m{last}") for text in texts)


async def idle() -> None:
    """Prints CPU and memory of idle accounts, beside a gateway without accounts."""
    with connected({}) as running:
        await settled(running)
        bare = running.tree.rss()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(TelegramServer()) for _ in range(ACCOUNTS)]
        accounts = {f"a{number}": telegram(server) for number, server in enumerate(servers)}
        with connected({"telegram": {"accounts": accounts}}) as running:
            await anyio.sleep(5)
            rss, before = running.tree.rss(), running.tree.cpu()
            await anyio.sleep(IDLE_SECONDS)
            share = (running.tree.cpu() - before) / IDLE_SECONDS
    async with TelegramServer() as server:
        single = {"telegram": telegram(server)}
        with connected(single) as running:
            await anyio.sleep(5)
            first = running.tree.rss()
    figure(
        f"{ACCOUNTS} idle accounts, CPU of a core",
        "<= 0.5%",
        f"{share:.2%}",
        f"over {IDLE_SECONDS:g} s; a long request of each waits up to 25 s",
    )
    figure(
        f"memory of each of {ACCOUNTS} idle accounts, MB",
        "<= 3",
        f"{(rss - bare) / ACCOUNTS:.2f}",
        f"the first takes {first - bare:.1f}, with the modules of its platform; a gateway without"
        f" any {bare:.1f}",
    )


async def refusals() -> None:
    """Prints the cost of deliveries that a platform refuses for its rate limit."""
    async with TelegramServer() as server:
        with connected({"telegram": telegram(server)}) as running:
            server.say("warm")
            await server.wait_for(1)
            await settled(running)
            for _ in range(REFUSALS):
                server.fail("sendMessage", 429, "Too Many Requests", retry_after=1)
            before = running.tree.cpu()
            for number in range(MESSAGES):
                server.say("hello", user=100 + number)
            with anyio.fail_after(300):
                for chat in range(100, 100 + MESSAGES):
                    await server.wait_for(1, chat=chat)
            cpu = running.tree.cpu() - before
            delivered_once = all(
                len(server.texts(chat)) == 1 for chat in range(100, 100 + MESSAGES)
            )
    figure(
        f"{MESSAGES} replies under {REFUSALS} refusals (429), CPU ms each",
        "",
        f"{cpu / MESSAGES * 1e3:.2f}",
        f"with their turns; {'each arrived once' if delivered_once else 'SOME ARRIVED TWICE'}",
    )


async def start() -> None:
    """Prints the cost of accounts at the start, by platform and in total."""
    costs: dict[str, tuple[float, float]] = {}
    with TemporaryDirectory(prefix="skerry-") as home:
        every = {name: _account(name, Path(home)) for name in PLATFORMS}
        await _measure(every, costs)
    bare = costs.pop("none")
    for name, (cpu_seconds, megabytes) in costs.items():
        figure(
            f"start with an account of {name}, CPU ms more",
            "",
            f"{(cpu_seconds - bare[0]) * 1e3:.0f}",
            f"and {megabytes - bare[1]:.1f} MB more; without accounts {bare[0]:.2f} CPU s and"
            f" {bare[1]:.1f} MB",
        )


async def _measure(
    every: Mapping[str, Mapping[str, Any]], costs: dict[str, tuple[float, float]]
) -> None:
    for name, channels in [
        ("none", {}),
        *((name, {name: account}) for name, account in every.items()),
        ("all", every),
    ]:
        cpu, rss = [], []
        for _ in range(3):
            with connected(channels) as running:
                cpu.append(running.start_cpu)
                await anyio.sleep(2)
                rss.append(running.tree.rss())
        costs[name] = statistics.median(cpu), statistics.median(rss)


def _account(name: str, home: Path) -> dict[str, Any]:
    """Returns an account of a platform that has credentials, and a server that does not answer."""
    section = PLATFORMS[name].section
    fields = {field.alias or key for key, field in section.model_fields.items()}
    account: dict[str, Any] = {key: CREDENTIAL for key, _ in section.login}
    account |= {key: text for key, text in NUMBERS.items() if key in account}
    account |= {key: NOWHERE for key in _ADDRESSES if key in fields}
    if name == "email":
        account |= {"address": "a@b.example", "imapHost": "127.0.0.1", "imapPort": 9, "smtpPort": 9}
    if name == "msteams":
        account["appId"] = "0f0f0f0f"
    if name == "googlechat":
        path = home / "key.json"
        content = {"client_email": "a@b", "private_key": pem(signing_key())}
        path.write_bytes(msgspec.json.encode(content))
        account |= {"serviceAccountFile": str(path), "audience": "123456789012"}
    return account


_ADDRESSES: Final = (
    *("apiRoot", "homeserver", "keysRoot", "loginRoot", "metadataUrl", "tokenUrl"),
)


async def main() -> None:
    """Prints all figures."""
    await message()
    await burst()
    await idle()
    await refusals()
    await start()


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
