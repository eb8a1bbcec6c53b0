"""The tool `browser` with a real Chromium: pages are read and used, and each process ends."""

import base64
import io
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from PIL import Image

from skerry.model.errors import ToolError
from skerry.model.message import ImageBlock
from skerry.model.origin import Origin
from tests.support.browsing import browsing, page, processes, ref, until_none
from tests.support.net_lab import reply

pytestmark = pytest.mark.full("Chromium")

FORM = """<h1>Order</h1><a href="/two">Next page</a>
<form action="/sent" method="get"><label>Name <input name="name"></label>
<label>Size <select name="size"><option>small<option>large</select></label>
<label><input type="checkbox" name="gift"> Gift</label><button>Send it</button></form>"""


async def test_a_page_is_read_filled_in_and_sent(tmp_path: Path) -> None:
    pages = {"/": page(FORM, "Shop"), "/two": page("<p>Second</p>"), "/sent": page("<p>Thanks</p>")}
    async with browsing(tmp_path, pages) as web:
        text = await web.see("open", url="http://a.example/")
        assert "'Shop'" in text
        assert '- heading "Order" level=1' in text
        assert 'url="http://a.example/two"' in text
        await web.act("fill", ref=ref(text, "textbox"), text="Ann")
        await web.act("select", ref=ref(text, "combobox"), values=["large"])
        await web.act("click", ref=ref(text, "checkbox"))
        filled = await web.see("snapshot")
        assert 'value="Ann"' in filled
        assert ref(filled, "textbox") == ref(text, "textbox")
        await web.act("click", ref=ref(text, 'button "Send it"'))
        await web.act("wait", text="Thanks", seconds=60)
        assert web.requested == ["GET /", "GET /sent?name=Ann&size=large&gift=on"]
        assert "Shop" in await web.see("back")
        with pytest.raises(ToolError, match="Take a new snapshot"):
            await web.act("click", ref=ref(text, "textbox"))


async def test_text_is_typed_key_by_key_and_submitted(tmp_path: Path) -> None:
    script = "<script>n.onkeydown = e => { p.textContent += e.key + ' ' }</script>"
    body = f"<form action=/sent><input id=n name=n value=x></form><p id=p></p>{script}"
    async with browsing(tmp_path, {"/": page(body), "/sent": page("<p>Thanks</p>")}) as web:
        text = await web.see("open", url="http://a.example/")
        field = ref(text, "textbox")
        await web.act("press", ref=field, key="End")
        await web.act("type", ref=field, text="yz")
        assert "End y z" in await web.see("snapshot")
        await web.act("type", ref=field, text="!", submit=True)
        await web.act("wait", text="Thanks", seconds=60)
        assert web.requested[-1] == "GET /sent?n=xyz%21"


async def test_a_screenshot_is_a_picture_of_the_page(tmp_path: Path) -> None:
    body = '<body style="margin:0;background:#f00"><div style="height:9000px"></div>'
    async with browsing(tmp_path, {"/": page(body)}) as web:
        await web.see("open", url="http://a.example/")
        for full in (False, True):
            result = await web.do("screenshot", full_page=full)
            (block,) = result.blocks
            assert isinstance(block, ImageBlock)
            image = Image.open(io.BytesIO(base64.b64decode(block.data)))
            assert image.format == "JPEG"
            red, green, blue = image.convert("RGB").getpixel((10, 10))  # type: ignore[misc] # three bands
            assert red > 240
            assert max(green, blue) < 20
            assert result.origin is Origin.WEB
            assert max(image.size) <= 2000


async def test_tabs_are_opened_chosen_and_closed_up_to_the_limit(tmp_path: Path) -> None:
    popups = "<button onclick=\"for (let i = 0; i < 9; i++) window.open('/two')\">Open</button>"
    pages = {"/": page(popups, "One"), "/two": page("<p>2</p>", "Two")}
    async with browsing(tmp_path, pages, maxTabs=2) as web:
        text = await web.see("open", url="http://a.example/")
        answer = await web.act("click", ref=ref(text, "button"))
        with anyio.fail_after(60):
            while "tabs: 2" not in (answer := await web.see("tabs")):  # noqa: ASYNC110 - nothing announces it
                await anyio.sleep(0.05)
        with pytest.raises(ToolError, match=r"browser\.maxTabs"):
            await web.see("open", url="http://a.example/two")
        (second,) = [line.split()[0] for line in answer.splitlines() if "/two" in line]
        assert "'Two'" in await web.see("focus", tab=second)
        assert await web.see("close", tab=second) == f"Closed {second}."
        assert "tabs: 1" in await web.see("tabs")
        with pytest.raises(ToolError, match=f"There is no tab {second}"):
            await web.see("snapshot", tab=second)


async def test_messages_and_dialogs_of_a_page_are_listed(tmp_path: Path) -> None:
    body = "<script>console.log('one', 2); alert('Hi'); nothing.there</script><p>After"
    async with browsing(tmp_path, {"/": page(body)}) as web:
        assert '"After"' in await web.see("open", url="http://a.example/")
        text = await web.see("console")
        assert "log: one 2" in text
        assert "dialog (alert), dismissed: Hi" in text
        assert "exception: ReferenceError: nothing is not defined" in text


async def test_a_page_that_hangs_ends_the_call_and_not_the_browser(tmp_path: Path) -> None:
    body = "<button onclick='for (;;) {}'>Hang</button>"
    pages = {"/": page(body), "/two": page("<p>Alive</p>")}
    async with browsing(tmp_path, pages, timeoutSeconds=3) as web:
        text = await web.see("open", url="http://a.example/")
        with pytest.raises(ToolError, match="did not answer within 3 s"):
            await web.act("click", ref=ref(text, "button"))
        assert "Alive" in await web.see("open", url="http://a.example/two")


async def test_an_element_that_another_one_covers_is_not_clicked(tmp_path: Path) -> None:
    cover = '<div style="position:fixed;inset:0" onclick="location=\'/stolen\'"></div>'
    async with browsing(tmp_path, {"/": page(f"<button>Below</button>{cover}")}) as web:
        text = await web.see("open", url="http://a.example/")
        with pytest.raises(ToolError, match=r"covered by another element \(div\)"):
            await web.act("click", ref=ref(text, "button"))
        assert web.requested == ["GET /"]


@pytest.mark.parametrize("kind", ["ephemeral", "kept"])
async def test_cookies_outlive_the_browser_only_in_a_kept_profile(
    tmp_path: Path, kind: str
) -> None:
    answer = reply(b"<p>Hello", content_type="text/html", set_cookie="id=7; Max-Age=3600")
    async with browsing(tmp_path, {"/": answer}, profile=kind) as web:
        await web.see("open", url="http://a.example/")
        await web.see("open", url="http://a.example/")
        assert [each.headers.get("cookie") for each in web.world.asked if each.path == "/"] == [
            *(None, "id=7")
        ]
        folder = tmp_path / "browser" / "main"
        assert folder.stat().st_mode & 0o077 == 0
        assert await web.see("stop") == "The browser has ended."
        assert folder.exists() is (kind == "kept")
        await web.see("open", url="http://a.example/")
        cookies = [each.headers.get("cookie") for each in web.world.asked if each.path == "/"]
        assert cookies == [None, "id=7", "id=7" if kind == "kept" else None]


async def test_an_idle_browser_ends_and_starts_again(tmp_path: Path) -> None:
    async with browsing(tmp_path, {"/": page("<p>Hello")}, idleMinutes=0.01) as web:
        await web.see("open", url="http://a.example/")
        assert processes(tmp_path)
        await until_none(tmp_path)
        assert "No browser runs" in await web.see("status")
        assert '"Hello"' in await web.see("open", url="http://a.example/")


async def test_a_change_of_the_configuration_ends_the_browser(tmp_path: Path) -> None:
    async with browsing(tmp_path, {"/": page("<p>Hello")}) as web:
        await web.see("open", url="http://a.example/")
        web.configured.set(enabled=False)
        await until_none(tmp_path)
        assert not (tmp_path / "browser" / "main").exists()


def is_chromium(number: int) -> bool:
    """Returns whether a process is the main process of Chromium, and not its guard."""
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes()
        return b"--type=" not in words and "chrom" in Path(f"/proc/{number}/exe").readlink().name
    except FileNotFoundError:
        return False


async def test_a_crashed_browser_is_started_again(tmp_path: Path) -> None:
    async with browsing(tmp_path, {"/": page("<p>Hello")}) as web:
        await web.see("open", url="http://a.example/")
        mains = [number for number in processes(tmp_path) if is_chromium(number)]
        assert mains
        for number in mains:
            os.kill(number, signal.SIGKILL)  # its guard still holds the pipes
        await until_none(tmp_path)
        with anyio.fail_after(60):
            while "No browser runs" not in await web.see("status"):  # noqa: ASYNC110 - nothing announces it
                await anyio.sleep(0.05)
        assert '"Hello"' in await web.see("open", url="http://a.example/")


async def test_no_process_outlives_the_gateway_that_stops(tmp_path: Path) -> None:
    async with browsing(tmp_path, {"/": page("<p>Hello")}) as web:
        await web.see("open", url="http://a.example/")
        assert processes(tmp_path)
    await until_none(tmp_path)


PROGRAM = """
import anyio, sys
from pathlib import Path
from tests.support.browsing import browsing, page

async def main():
    async with browsing(Path(sys.argv[1]), {"/": page("<p>Hello")}) as web:
        await web.see("open", url="http://a.example/")
        print("ready", flush=True)
        await anyio.sleep(50)

anyio.run(main)
"""


async def test_no_process_outlives_a_gateway_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    root = Path(__file__).parents[2]
    async with await anyio.open_process(command, stderr=None, cwd=root) as process:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"ready" not in said:
                said += await process.stdout.receive()
        browsers = [number for number in processes(tmp_path) if number != process.pid]
        assert browsers
        process.kill()
    await until_none(tmp_path)
