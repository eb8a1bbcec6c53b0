"""Sign-in with PKCE against a real local OAuth service, and renewal of its tokens."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest

from skerry.auth.profiles import FILE, Profile, read
from skerry.auth.refresh import EARLY, Renewal, exchange
from skerry.auth.signin import PRESETS, SignIn, SignInService, callback, obtained
from skerry.auth.vault import SealedVault
from skerry.infra.http import HttpClient
from skerry.model.errors import CredentialError, ModelConnectionError, ModelSignInError
from skerry.model.ids import MAIN_AGENT
from skerry.testing.clock import FakeClock
from tests.support.oauth_server import StubOAuthServer
from tests.support.sockets import answering


@pytest.fixture
async def server() -> AsyncIterator[StubOAuthServer]:
    async with StubOAuthServer() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with HttpClient() as http:
        yield http


def service(server: StubOAuthServer) -> SignInService:
    return SignInService(
        server.authorize_url, server.token_url, "client", scopes=("models", "profile")
    )


async def browse(http: httpx2.AsyncClient, url: str, **headers: str) -> httpx2.Response:
    return await http.send(httpx2.Request("GET", url, headers=headers))


async def test_the_browser_comes_back_with_a_code_that_becomes_tokens(
    server: StubOAuthServer, http: httpx2.AsyncClient
) -> None:
    with anyio.fail_after(60):
        async with callback(0) as waiting:
            sign_in = SignIn(service(server), waiting.port)
            page = await browse(http, server.approve(sign_in.url))
            assert (page.status_code, "signed in" in page.text) == (200, True)
            code = sign_in.code(await waiting.answer())
            tokens = await sign_in.finish(http, code, 1_000)
    assert tokens.access in server.access
    assert tokens.expires == 3_601_000
    with pytest.raises(CredentialError):  # a code counts once
        await sign_in.finish(http, code, 1_000)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"[" * 100_000, b'{"access_token":"\xff"}'])
async def test_an_answer_without_a_token_is_none(http: httpx2.AsyncClient, body: bytes) -> None:
    async with answering(body) as port:
        with pytest.raises(ModelConnectionError, match="returned no token"):
            await exchange(http, f"http://127.0.0.1:{port}/token", {}, 1_000)


@pytest.mark.parametrize(
    ("seconds", "expires"), [(b"60", 61_000), (b"1e308", 315_360_001_000), (b"null", None)]
)
async def test_a_token_counts_for_as_long_as_is_said_within_reason(
    http: httpx2.AsyncClient, seconds: bytes, expires: int | None
) -> None:
    async with answering(b'{"access_token":"a","expires_in":%b}' % seconds) as port:
        tokens = await exchange(http, f"http://127.0.0.1:{port}/token", {}, 1_000)
    assert tokens.expires == expires


async def test_an_address_that_was_pasted_does_as_well(
    server: StubOAuthServer, http: httpx2.AsyncClient
) -> None:
    sign_in = SignIn(service(server), 9)
    address = server.approve(sign_in.url)
    query = httpx2.URL(address).params
    assert sign_in.code(f"  {address}\n") == sign_in.code(f"{query['code']}#{query['state']}")
    assert (await sign_in.finish(http, sign_in.code(query["code"]), 0)).access in server.access


async def test_an_answer_to_another_sign_in_is_refused(server: StubOAuthServer) -> None:
    mine, other = SignIn(service(server), 9), SignIn(service(server), 9)
    for answer in (server.approve(other.url), "/callback?code=x", "x#other"):
        with pytest.raises(CredentialError, match="another sign-in"):
            mine.code(answer)


async def test_a_refusal_is_told(server: StubOAuthServer) -> None:
    sign_in = SignIn(service(server), 9)
    with pytest.raises(CredentialError, match="access_denied"):
        sign_in.code(f"/callback?error=access_denied&state={sign_in.state}")


async def test_a_code_without_the_verifier_of_its_start_gets_nothing(
    server: StubOAuthServer, http: httpx2.AsyncClient
) -> None:
    sign_in = SignIn(service(server), 9)
    code = sign_in.code(server.approve(sign_in.url))
    thief = SignIn(service(server), 9)
    with pytest.raises(CredentialError):
        await thief.finish(http, code, 0)


async def test_the_port_answers_only_to_its_own_name_and_path(http: httpx2.AsyncClient) -> None:
    with anyio.fail_after(60):
        async with callback(0) as waiting:
            base = f"http://127.0.0.1:{waiting.port}"
            strange = await browse(http, f"{base}/callback?code=x", host="evil.example")
            assert strange.status_code == 400
            assert (await browse(http, f"{base}/other?code=x")).status_code == 400
            assert (await browse(http, f"{base}/callback?code=mine")).status_code == 200
            assert await waiting.answer() == "/callback?code=mine"


def test_the_service_that_gives_keys_is_asked_as_it_documents() -> None:
    sign_in = SignIn(PRESETS["openrouter"], 3000)
    query = httpx2.URL(sign_in.url).params
    assert query["callback_url"] == f"http://localhost:3000/callback/{sign_in.state}"
    assert set(query) == {"callback_url", "code_challenge", "code_challenge_method"}
    assert sign_in.code(f"/callback/{sign_in.state}?code=k") == "k"
    with pytest.raises(CredentialError):
        sign_in.code("/callback/other?code=k")


class Home:
    """A profile of a sign-in, and its renewal."""

    def __init__(self, home: Path, http: httpx2.AsyncClient, server: StubOAuthServer) -> None:
        self.home = home
        self.clock = FakeClock()
        self.server = server
        self.vault = SealedVault(home / "credentials")
        self.renewal = Renewal(http, self.vault, {}, self.clock)
        self.access, refresh = server.issue()
        self.write(access=self.access, refresh=refresh)

    def write(self, **secrets: Any) -> None:
        content = {
            "type": "oauth",
            "provider": "p",
            "saved": 1,
            "expires": self.clock.now_ms() + 3_600_000,
            "tokenUrl": self.server.token_url,
            "clientId": "client",
            **secrets,
        }
        path = self.home / FILE
        path.write_text(json.dumps({"version": 1, "profiles": {"p:me": content}, "kept": 7}))
        path.chmod(0o600)

    @property
    def profile(self) -> Profile:
        return read(self.home / FILE, MAIN_AGENT).profiles["p:me"]

    async def get(self) -> str:
        with anyio.fail_after(60):
            return await self.renewal.access(self.profile, self.home)


@pytest.fixture
def home(tmp_path: Path, http: httpx2.AsyncClient, server: StubOAuthServer) -> Home:
    return Home(tmp_path, http, server)


async def test_a_token_that_counts_for_long_is_not_renewed(home: Home) -> None:
    assert await home.get() == home.access
    assert home.server.forms == []


async def test_a_token_is_renewed_before_it_ends_and_the_new_one_is_kept(home: Home) -> None:
    home.clock.advance(3_600_000 - EARLY)
    renewed = await home.get()
    assert renewed in home.server.access - {home.access}
    assert await home.get() == renewed
    assert len(home.server.forms) == 1
    assert json.loads((home.home / FILE).read_text())["kept"] == 7
    home.clock.advance(3_600_000)
    assert await home.get() in home.server.access  # with the new refresh token
    assert not home.server.reused


async def test_tokens_of_the_vault_stay_in_the_vault(home: Home) -> None:
    access, refresh = home.server.issue()
    home.vault.put("p", {"a": access, "r": refresh})
    home.write(access={"source": "vault", "id": "a"}, refresh={"source": "vault", "id": "r"})
    home.clock.advance(3_600_000)
    renewed = await home.get()
    assert renewed == home.vault.get("p", "a")
    text = "".join(path.read_text() for path in home.home.rglob("*") if path.is_file())
    assert renewed not in text
    assert home.vault.get("p", "r") != refresh


async def test_many_at_once_renew_once(home: Home) -> None:
    home.clock.advance(3_600_000)
    found: list[str] = []

    async def one() -> None:
        found.append(await home.get())

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert len(set(found)) == 1
    assert len(home.server.forms) == 1


_OTHER = """
import sys, anyio
from pathlib import Path
from skerry.auth.profiles import FILE, read
from skerry.auth.refresh import Renewal
from skerry.auth.vault import SealedVault
from skerry.infra.http import HttpClient
from skerry.model.ids import MAIN_AGENT
from skerry.testing.clock import FakeClock

async def main(home, now):
    async with HttpClient() as http:
        renewal = Renewal(http, SealedVault(home / "credentials"), {}, FakeClock(now))
        profile = read(home / FILE, MAIN_AGENT).profiles["p:me"]
        print(await renewal.access(profile, home))

anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
"""


async def test_two_processes_renew_once(home: Home) -> None:
    home.clock.advance(3_600_000)
    found: list[str] = []

    async def one() -> None:
        words = [sys.executable, "-c", _OTHER, str(home.home), str(home.clock.now_ms())]
        found.append((await anyio.run_process(words)).stdout.decode().strip())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(one)
    assert len(set(found)) == 1
    assert (len(home.server.forms), home.server.reused) == (1, False)


async def test_a_sign_in_that_has_ended_says_what_to_do(home: Home) -> None:
    home.server.revoke()
    home.clock.advance(3_600_000)
    with pytest.raises(ModelSignInError, match="has expired") as caught:
        await home.get()
    assert caught.value.remedy == "skerry auth login p --agent main"
    assert home.access not in str(caught.value)


async def test_a_service_that_is_away_costs_nothing_while_the_old_token_counts(home: Home) -> None:
    home.server.status = 503
    home.clock.advance(3_600_000 - EARLY)
    assert await home.get() == home.access
    home.clock.advance(EARLY)
    with pytest.raises(ModelConnectionError):
        await home.get()
    home.server.status = 200
    assert await home.get() in home.server.access


async def test_an_abort_does_not_lose_the_new_token(home: Home) -> None:
    home.clock.advance(3_600_000)
    home.server.held = anyio.Event()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(home.get)
            while not home.server.forms:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            home.server.held.set()
    assert home.profile.fields["access"] in home.server.access - {home.access}


async def test_a_pasted_answer_of_another_sign_in_is_the_only_failure(
    server: StubOAuthServer,
) -> None:
    shown: list[str] = []
    other = SignIn(service(server), 9)

    async def pasted() -> str:
        return server.approve(other.url)

    with pytest.raises(CredentialError, match="another sign-in"):
        await obtained(service(server), FakeClock(), shown.append, pasted)
    assert len(shown) == 1
