"""A bot of python-telegram-bot at one of our test servers; prints the updates and the answers.

Runs in an environment of its own: `python telegram_bot.py TOKEN ROOT`. Bodies of our adapter arrive
on stdin, a JSON line each, and are checked against the parameters of the library's methods.
"""

import asyncio
import inspect
import json
import re
import sys
from importlib import import_module
from typing import Any

telegram: Any = import_module("telegram")


def unknown(method: str, params: dict[str, Any]) -> list[str]:
    """Returns the parameters that the library's method of this name lacks."""
    name = re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", method)
    return sorted(params.keys() - inspect.signature(getattr(telegram.Bot, name)).parameters.keys())


def checked(line: dict[str, Any]) -> list[str]:
    """Parses the objects of a body as the library does; returns their faults."""
    method, params = line["method"], line["params"]
    wrong = unknown(method, params)
    markup = params.get("reply_markup")
    if (
        markup is not None
        and telegram.InlineKeyboardMarkup.de_json(markup, None).to_dict() != markup
    ):
        wrong.append("reply_markup")
    reply = params.get("reply_parameters")
    if reply is not None and telegram.ReplyParameters.de_json(reply, None).to_dict() != reply:
        wrong.append("reply_parameters")
    for reaction in params.get("reaction", ()):
        if telegram.ReactionType.de_json(reaction, None).to_dict() != reaction:
            wrong.append("reaction")
    for option in params.get("options", ()):
        if telegram.InputPollOption.de_json(option, None).to_dict() != option:
            wrong.append("options")
    return [f"{method}: {name}" for name in wrong]


async def main(token: str, root: str) -> None:
    wrong = [fault for line in sys.stdin for fault in checked(json.loads(line))]
    request = import_module("telegram.request").HTTPXRequest(httpx_kwargs={"trust_env": False})
    bot = telegram.Bot(
        token, base_url=f"{root}/bot", base_file_url=f"{root}/file/bot", request=request
    )
    async with bot:
        updates = await bot.get_updates(timeout=0, allowed_updates=["message", "callback_query"])
        read = [
            [update.message.text, update.message.from_user.full_name, update.message.chat.type]
            for update in updates
            if update.message is not None
        ]
        pressed = [
            update.callback_query.data for update in updates if update.callback_query is not None
        ]
        sent = await bot.send_message(7, "<b>hi</b> &amp; bye", parse_mode="HTML")
        await bot.edit_message_text("there", chat_id=7, message_id=sent.message_id)
        await bot.send_document(7, b"data", filename="d.txt", caption="look")
        await bot.set_message_reaction(7, sent.message_id, "👍")
        refused = ""
        try:
            await bot.send_message(7, "<b>broken", parse_mode="HTML")
        except telegram.error.BadRequest as error:
            refused = str(error)
    sys.stdout.write(
        json.dumps({"read": read, "pressed": pressed, "refused": refused, "wrong": wrong})
    )


asyncio.run(main(*sys.argv[1:]))
