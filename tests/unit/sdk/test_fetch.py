"""Requests of plugins pass the network policy, as the owner has it at the moment."""

from functools import partial

from skerry.net.live_client import LiveClient, make_client
from skerry.policy.network import NetworkRules
from skerry.sdk.api import PluginApi
from skerry.sdk.fetch import Outcome, PluginHttp
from tests.support.net_lab import PUBLIC, lab, reply


async def test_a_plugin_fetches_what_is_public_and_what_the_owner_opens_meanwhile() -> None:
    rules = NetworkRules()
    async with lab(a_example=PUBLIC, nas_lan="10.0.0.7") as world:
        await world.serve(PUBLIC, 80, reply(b"public"))
        await world.serve("10.0.0.7", 8081, reply(b"local"))
        client = LiveClient(partial(make_client, resolve=world.resolve, dial=world.dial))
        http = PluginHttp(lambda: rules, client)
        fetched = await http.fetch(
            "http://a.example/", method="POST", headers={"x": "y"}, body=b"b"
        )
        assert (fetched.outcome, fetched.body) == (Outcome.ALLOW, b"public")
        assert (await http.fetch("http://nas.lan:8081/")).outcome is Outcome.BLOCK
        rules = NetworkRules(allowed_hosts=frozenset({("nas.lan", 8081)}))
        assert (await http.fetch("http://nas.lan:8081/")).body == b"local"
        assert (await http.fetch("http://a.example/", max_bytes=3)).truncated
    assert world.asked[0].body == b"b"


async def test_the_api_of_a_plugin_reaches_nothing_that_is_local() -> None:
    fetched = await PluginApi("mine").http.fetch("http://127.0.0.1:8080/")
    assert (fetched.outcome, fetched.rule) == (Outcome.BLOCK, "address-loopback")
