"""Judges requests of the Cloud API by pywa: those of our fake server, and those of our adapter.

Runs in an environment of its own: `python judge.py ROOT NUMBER_ID TOKEN`. Bodies of requests to an
account arrive on stdin, a JSON line each. Prints what pywa reads in them, and the bodies that pywa
itself sends for the same contents as the adapter, which the fake server has to take as well.
"""

import json
import sys
from importlib import import_module
from typing import Any

pywa: Any = import_module("pywa")
types: Any = import_module("pywa.types")


def read(client: Any, update: dict[str, Any]) -> list[Any]:
    """Returns the fields that pywa reads in an update."""
    value = update["entry"][0]["changes"][0]["value"]
    if "statuses" in value:
        status = types.MessageStatus.from_update(client, update)
        return [str(status.status.value), status.tracker, status.error and status.error.code]
    kind = value["messages"][0]["type"]
    if kind == "interactive":
        pressed = types.CallbackButton.from_update(client, update)
        return ["pressed", pressed.data, pressed.from_user.wa_id]
    if kind == "edit":
        edit = types.EditedMessage.from_update(client, update)
        return ["edit", edit.original_message_id, edit.message.text]
    message = types.Message.from_update(client, update)
    words: dict[str, Any] = {
        "text": lambda: message.text,
        "image": lambda: [message.image.id, message.caption],
        "audio": lambda: [message.audio.id, message.audio.voice],
        "document": lambda: [message.document.id, message.document.filename],
        "location": lambda: [message.location.latitude, message.location.name],
        "contacts": lambda: message.contacts[0].phones[0].phone,
        "reaction": lambda: message.reaction.emoji,
    }
    name = message.from_user.name
    return [str(message.type.value), words[kind](), name, message.from_user.wa_id]


def main(root: str, number_id: str, token: str) -> None:
    session = import_module("httpx").Client(trust_env=False)
    client = pywa.WhatsApp(phone_id=number_id, token=token, server=None, session=session)
    bodies: list[Any] = []
    session.base_url = root
    session.event_hooks["request"] = [lambda request: bodies.append(json.loads(request.content))]
    shown = [read(client, json.loads(line)) for line in sys.stdin]
    to, tracker = "491701", "r/0/0"
    buttons = [types.Button(title="Allow", callback_data="/approve 1 allow-once")]
    client.send_message(to, "*hi*", reply_to_message_id="wamid.0", tracker=tracker)
    client.send_message(to, "May I?", buttons=buttons, tracker=tracker)
    rows = [types.SectionRow(title=f"C{n}", callback_data=f"/c {n}") for n in range(4)]
    sections = [types.Section(title="Choices", rows=rows)]
    client.send_message(
        to, "Which?", buttons=types.SectionList("Choose", sections=sections), tracker=tracker
    )
    client.send_reaction(to, "👀", "wamid.1")
    client.indicate_typing("wamid.1")
    sys.stdout.write(json.dumps({"read": shown, "bodies": bodies}))


main(*sys.argv[1:])
