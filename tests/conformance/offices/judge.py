"""Judges what we send to Google Chat and MS Teams, and our fakes of both, by their libraries.

Runs in an environment of its own. Reads one JSON object: bodies of messages, spaces and activities
from both sides, and tokens with their keys. Prints what the libraries of Google, of Microsoft and
PyJWT read in them; each raises where it meets a field or a value that it does not know.
"""

import json
import sys
from importlib import import_module
from typing import Any

chat: Any = import_module("google.apps.chat_v1.types")
json_format: Any = import_module("google.protobuf.json_format")
google_jwt: Any = import_module("google.auth.jwt")
agents: Any = import_module("microsoft_agents.activity")
jwt: Any = import_module("jwt")


def parsed(kind: Any, body: dict[str, Any]) -> Any:
    """Returns a body of the Chat API; a field that Google does not know is an error."""
    resource = kind()
    json_format.ParseDict(body, kind.pb(resource))
    return resource


def read_message(body: dict[str, Any]) -> list[Any]:
    message = parsed(chat.Message, body)
    cards = [widget for card in message.cards_v2 for widget in card.card.sections[0].widgets]
    buttons = [button for widget in cards for button in widget.button_list.buttons]
    actions = [(button.text, button.on_click.action.parameters[0].value) for button in buttons]
    return [message.text, message.thread.name, message.markup_syntax.name, actions]


def read_event(event: dict[str, Any]) -> list[Any]:
    message, space = parsed(chat.Message, event["message"]), parsed(chat.Space, event["space"])
    user = parsed(chat.User, event["user"])
    return [message.text, message.argument_text, space.name, space.space_type.name, user.type_.name]


def read_activity(body: dict[str, Any]) -> list[Any]:
    activity = agents.Activity.model_validate(body)
    written = activity.model_dump(mode="json", by_alias=True, exclude_unset=True)
    unknown = sorted(activity.model_extra or {})
    mentions = [mention.mentioned.id for mention in activity.get_mentions()]
    kind = activity.conversation.conversation_type if activity.conversation else None
    return [written["type"], activity.text, kind, mentions, unknown]


def main() -> None:
    asked = json.load(sys.stdin)
    assertion = asked["assertion"]
    claims = google_jwt.decode(assertion["token"], assertion["pem"], audience=assertion["audience"])
    key = jwt.PyJWK(asked["jwk"], "RS256")
    proven = jwt.decode(
        asked["token"],
        key,
        algorithms=["RS256"],
        audience=asked["audience"],
        issuer=asked["issuer"],
    )
    read = {
        "messages": [read_message(body) for body in asked["messages"]],
        "events": [read_event(event) for event in asked["events"]],
        "activities": [read_activity(body) for body in asked["activities"]],
        "assertion": [claims["iss"], claims["scope"]],
        "token": proven["aud"],
    }
    sys.stdout.write(json.dumps(read))


main()
