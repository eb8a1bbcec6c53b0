"""The state of an account, and the waits between its attempts."""

import logging

import pytest

from skerry.infra.clock import SystemClock
from skerry.sdk.channel_account import LOGIN_WAIT, Account
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channels import AccountId, ChannelId, ConnectionState


class Chat(Account):
    """An account of a platform that is none."""

    channel = ChannelId("chat")
    login_remedy = "Ask for a token"


def account() -> Chat:
    return Chat(ChannelHost(AccountId("home"), SystemClock()))


def test_the_waits_grow_with_failures_and_start_over_once_connected() -> None:
    chat = account()
    assert [chat.failed(OSError("gone")) for _ in range(3)] == [1.0, 2.0, 4.0]
    assert (chat.state.state, chat.state.message) == (ConnectionState.RETRYING, "gone")
    chat.connected("@bot")
    assert (chat.state.state, chat.state.name) == (ConnectionState.CONNECTED, "@bot")
    assert chat.failed(OSError("gone")) == 1.0
    assert chat.state.name == "@bot"


def test_the_platform_may_name_the_wait() -> None:
    assert account().failed(PlatformError("limit", retry_after=17.0)) == 17.0


def test_refused_credentials_name_the_remedy_and_its_command() -> None:
    chat = account()
    assert chat.failed(PlatformError("no such token", is_login=True)) == LOGIN_WAIT
    assert chat.state.state is ConnectionState.NEEDS_LOGIN
    command = "`skerry channels login chat --account home`"
    assert chat.state.remedy == f"Ask for a token, then run {command}."


def test_the_first_of_failures_in_a_row_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    chat = account()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            chat.failed(OSError("gone"))
    assert caplog.messages == ["chat/home: gone"]
