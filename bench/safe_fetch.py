"""CPU of a fetch of 20 KB under the policy for addresses of strangers, beside the plain client.

The server runs in a process of its own. The client resolves no real name: to ask the system costs
both clients the same.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
import httpx2

from bench.measure import figure
from skerry.infra.http import PooledTransport
from skerry.infra.sockets import Stream, connect_addresses
from skerry.net.safe_fetch import FetchRequest, SafeClient
from skerry.policy.network import NetworkRules

FETCHES = 300
SIZE = 20_000
ROUNDS = 7
SERVER = """
import asyncio
BODY = b"x" * 20_000
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/plain\\r\\ncontent-length: 20000\\r\\n\\r\\n"
class Server(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        if self.data.endswith(b"\\r\\n\\r\\n"):
            self.data = b""
            self.transport.write(HEAD + BODY)
async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


async def cpu_us(fetch: Callable[[], Awaitable[object]]) -> float:
    begin = time.process_time()
    for _ in range(FETCHES):
        await fetch()
    return (time.process_time() - begin) / FETCHES * 1e6


def safe_client(port: int, idle_limit: int) -> SafeClient:
    """Returns a client that takes a public name and address to the server of the benchmark."""

    async def resolve(_: str) -> list[str]:
        return ["93.184.216.34"]

    async def dial(_: Sequence[str], __: int, seconds: float | None) -> Stream:
        return await connect_addresses(["127.0.0.1"], port, seconds)

    return SafeClient(NetworkRules(), resolve=resolve, dial=dial, idle_limit=idle_limit)


async def compared(port: int, idle_limit: int) -> tuple[float, float]:
    """Returns the CPU of a safe fetch, in microseconds, and its median ratio to the plain one."""
    transport = PooledTransport(idle_limit=idle_limit)
    plain_client = httpx2.AsyncClient(transport=transport, trust_env=False)
    async with plain_client as http, safe_client(port, idle_limit) as safe:
        url = f"http://127.0.0.1:{port}/page"

        async def plain() -> None:
            response = await http.get(url)
            assert len(response.content) == SIZE

        async def under_policy() -> None:
            fetched = await safe.fetch(FetchRequest("http://a.example/page"))
            assert len(fetched.body) == SIZE

        await plain()
        await under_policy()
        pairs = [(await cpu_us(under_policy), await cpu_us(plain)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(a / b for a, b in pairs)


def main() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            reused = anyio.run(compared, port, 8)
            opened = anyio.run(compared, port, 0)
        finally:
            server.terminate()
    for name, (cost, ratio) in {"kept connection": reused, "new connection": opened}.items():
        figure(
            f"safe_fetch, {name}, times the client",
            "<= 1.3",
            f"{ratio:.2f}",
            f"{cost:.0f} us of CPU for 20 KB, {ROUNDS} rounds of {FETCHES}",
        )


if __name__ == "__main__":
    main()
