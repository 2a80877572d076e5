"""A headless browser, driven over the DevTools protocol; nothing but the standard library is needed.

Commands and answers are JSON, ended by NUL, on the file descriptors 3 and 4 of the browser
(``--remote-debugging-pipe``).
"""

import base64
import io
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress

from PIL import Image

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# WebGL without a graphics card; and nothing but the page is to be looked at: a browser at rest calls home.
FLAGS = [
    *["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--remote-debugging-pipe"],
    *["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
    *["--no-first-run", "--disable-background-networking", "--disable-component-update"],
    *["--disable-sync", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND"],
]


class Browser:
    """One page of a browser."""

    def __init__(self, profile, size=(1280, 1000)):
        self._buffer, self._number, self._session, self.events = b"", 0, {}, []
        flags = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        command = f"exec {shlex.join([CHROMIUM, *flags])} 3<&0 4>&1 </dev/null >/dev/null 2>&1"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self._process = subprocess.Popen(command, shell=True, start_new_session=True, **pipes)
        self.pid = self._process.pid
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(*size)

    def resize(self, width, height, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def close(self):
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        self._process.stdin.close()
        self._process.stdout.close()

    def call(self, method, **params):
        """Send one command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self, timeout=60):
        end = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            piece = self._process.stdout.read(1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("the browser does not answer" if not ready else "the browser has ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url, ready="document.body && document.body.dataset.ready === 'yes'"):
        """Go to a page and wait until its script says that it is drawn."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait(ready, timeout=120)

    def evaluate(self, script):
        """The value of an expression in the page; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def wait(self, condition, timeout=20, act=lambda: None, polls=1):
        """Wait until a condition holds, acting again after every so many looks at it."""
        end = time.monotonic() + timeout
        while True:
            act()
            for _ in range(polls):
                if self.evaluate(f"Boolean({condition})"):
                    return
                time.sleep(0.05)
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} did not become true; problems: {self.problems()}")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y, condition, timeout=20):
        """Move the pointer to a place, and about it, until the page has taken notice."""

        def move():
            self.mouse("mouseMoved", x - 2, y)
            self.mouse("mouseMoved", x, y)

        self.wait(condition, timeout, move, polls=10)

    def click(self, x, y, condition, count=1):
        """Click at a place (twice, if asked for) until the page has taken notice.

        On a busy machine the pointer's move may be handled after the click, which then meets nothing. Clicks
        are far enough apart not to be double ones.
        """

        def press():
            self.mouse("mouseMoved", x - 2, y)
            self.mouse("mouseMoved", x, y)
            time.sleep(0.2)
            for number in range(1, count + 1):
                self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=number)
                self.mouse("mouseReleased", x, y, button="left", buttons=0, clickCount=number)

        self.wait(condition, 20, press, polls=30)

    def choose(self, select_id, text):
        """Choose an entry of a list by what it shows, as a user does."""
        self.evaluate(f"""(async () => {{
          const list = document.getElementById({json.dumps(select_id)});
          const entry = [...list.options].find((each) => each.text === {json.dumps(text)});
          if (!entry) throw new Error([...list.options].map((each) => each.text).join());
          list.value = entry.value;
          list.dispatchEvent(new Event("change"));
          await isoweaveReport.settled();
        }})()""")

    def screenshot(self):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    def problems(self):
        """Errors the page has met so far, and addresses of others that it has asked for."""
        self.evaluate("0")
        found = []
        for method, params in ((event["method"], event["params"]) for event in self.events):
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(str(params["args"])[:500])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                found.append(params["request"]["url"])
        return [text for text in found if not text.startswith(("file:", "data:", "blob:"))]
