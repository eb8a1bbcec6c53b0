"""A voice message on a platform is transcribed and answered, and the call is recorded."""

import json
from pathlib import Path

from skerry.testing.gateway import running_gateway
from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve
from skerry.testing.telegram_server import TelegramServer
from tests.support.cli import run_command


async def test_a_voice_message_is_transcribed_answered_and_booked(tmp_path: Path) -> None:
    uploaded_files: list[UploadedFile] = []

    async def transcribe(request: ServedRequest) -> ServedResponse:
        file = request.form()["file"]
        assert isinstance(file, UploadedFile)
        uploaded_files.append(file)
        usage = {"type": "duration", "seconds": 60}
        return ServedResponse.of({"text": "Is the tide high?", "usage": usage})

    async with TelegramServer() as server, serve(transcribe) as root:
        account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
        access = {"dmPolicy": "open", "allowFrom": ["*"]}
        model = {"provider": "ear", "model": "whisper-1", "baseUrl": root, "costPerMinute": 0.25}
        config = {
            "channels": {"telegram": {**account, **access}},
            "tools": {"media": {"audio": {"models": [model]}}},
        }
        async with running_gateway(home=tmp_path, config=config) as gateway:
            server.say("", voice={**server.upload(b"OggS"), "mime_type": "audio/ogg"})
            (answer,) = await server.wait_for(1)
            assert answer == "echo: [Audio voice.ogg: transcribed, it says]\nIs the tide high?"
            assert (uploaded_files[0].data, uploaded_files[0].mime) == (b"OggS", "audio/ogg")
            environ = {
                "HOME": str(tmp_path),
                "SKERRY_STATE_DIR": str(tmp_path),
                "SKERRY_GATEWAY_URL": gateway.address.url,
                "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
            }
            completed = await run_command("usage", "--json", environ=environ)
            assert completed.returncode == 0, completed.stderr
            assert "whisper-1" in json.dumps(json.loads(completed.stdout))
            assert await gateway.stop() == 0
        assert server.faults == []
