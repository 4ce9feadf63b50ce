"""Serves a lake and looks at pages of it where there is no network: run in a network namespace of its own.

    python -P alone.py ROOT CHROMIUM FLAGS PATHS      the last two as JSON

Prints JSON: where trajlake is installed, requests to other origins, the browser's complaints, and the pages' titles.
"""

import errno
import fcntl
import json
import socket
import struct
import subprocess
import sys
import time
import urllib.request

from playwright.sync_api import sync_playwright

UP = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")
PORT = 8765


def main(root: str, chromium: str, flags: list[str], paths: list[str]) -> None:
    with socket.socket() as any_socket:
        # The loopback device of a new namespace is down: SIOCSIFFLAGS.
        fcntl.ioctl(any_socket, 0x8914, UP)
    with socket.socket() as out:
        assert out.connect_ex(("192.0.2.1", 80)) == errno.ENETUNREACH, "there is a network here"
    serve = [sys.executable, "-P", "-m", "trajlake", "dashboard", "--root", root, "--port", str(PORT)]
    url = f"http://127.0.0.1:{PORT}/"
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as served:
        while True:
            try:
                urllib.request.urlopen(f"{url}live").close()
                break
            except OSError:
                assert served.poll() is None
                time.sleep(0.1)
        told = look(url, chromium, flags, paths)
        served.terminate()
    import trajlake

    print(json.dumps({**told, "installed": trajlake.__file__}))


def look(url: str, chromium: str, flags: list[str], paths: list[str]) -> dict[str, list[str]]:
    asked: list[str] = []
    complaints: list[str] = []
    titles = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        for path in paths:
            answer = page.goto(url + path, wait_until="load")
            assert answer is not None
            assert answer.status == 200, path
            titles.append(page.title())
        browser.close()
    return {"elsewhere": [at for at in asked if not at.startswith(url)], "complaints": complaints, "titles": titles}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4]))
