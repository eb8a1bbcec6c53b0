"""Opens connections to hosts that a model or a stranger chose: resolves, checks, connects."""

from collections.abc import Awaitable, Callable, Sequence

import httpx2

from skerry.infra.sockets import Stream, connect_addresses
from skerry.net.dns import Resolve
from skerry.policy.addresses import parse_address
from skerry.policy.network import NetworkRules, check_answers, check_target
from skerry.policy.urls import Refusal, Target

Dial = Callable[[Sequence[str], int, float | None], Awaitable[Stream]]
"""Opens a connection to one of the addresses; takes addresses, port and a limit in seconds.

`infra.sockets.connect_addresses` implements it.
"""


class TargetRefusedError(Exception):
    """The policy refuses the target; no connection was opened."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.reason)


class CheckedConnect:
    """Opens the connections of a pool under the policy, which checks each host and each address.

    A name is resolved once for each connection, and the connection is opened to the addresses that
    were checked: a later change of the name has no effect on it.
    """

    def __init__(
        self, rules: NetworkRules, resolve: Resolve, dial: Dial = connect_addresses
    ) -> None:
        self._rules = rules
        self._resolve = resolve
        self._dial = dial

    async def __call__(self, host: str, port: int, seconds: float | None) -> Stream:
        """Returns a stream to the host.

        Args:
            host: A name or an address.
            port: From 1 to 65535.
            seconds: Limit of the connection; None is no limit. A resolution has its separate limit.

        Raises:
            TargetRefusedError: the policy refuses the host, the port or an address, or the name
                cannot be resolved.
            httpx2.ConnectError: no address could be connected.
        """
        address = parse_address(host)
        target = Target("http", host, port, "/", address)
        refusal = check_target(target, self._rules)
        if refusal is not None:
            raise TargetRefusedError(refusal)
        addresses = [host] if address is not None else await self._answers(host)
        refusal = check_answers(target, addresses, self._rules)
        if refusal is not None:
            raise TargetRefusedError(refusal)
        return await self._dial(addresses, port, seconds)

    async def _answers(self, host: str) -> list[str]:
        try:
            return await self._resolve(host)
        except TimeoutError:
            reason = f"No name server answered for {host}."
            raise TargetRefusedError(Refusal("name-timeout", reason)) from None
        except httpx2.HTTPError as error:
            raise TargetRefusedError(Refusal("name-unresolved", f"{host}: {error}")) from error
