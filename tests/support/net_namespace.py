"""A program in a network namespace of its own: servers on public and private addresses, a client.

`python net_namespace.py HOSTS SKERRY` mounts the file HOSTS over /etc/hosts, gives the loopback
device the addresses in it, runs `SKERRY net fetch --stdin` on the lines of stdin, and prints what
it answered and each connection that a server saw, as one JSON object.
"""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

PORTS = (80, 8080)
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
SEEN: list[tuple[str, int]] = []


def answer(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (part := connection.recv(65536)):
            return
        data += part
    path = data.split(b" ")[1]
    if path.startswith(b"/to/"):
        head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + path[4:]
        connection.sendall(head + b"\r\n\r\n")
    else:
        connection.sendall(HELLO)
    connection.close()


def serve(listener: socket.socket, address: str, port: int) -> None:
    while True:
        connection, _ = listener.accept()
        SEEN.append((address, port))
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def main(hosts: str, program: str) -> None:
    def run(*words: str) -> None:
        subprocess.run(words, check=True)

    run("mount", "--bind", hosts, "/etc/hosts")
    run("ip", "link", "set", "lo", "up")
    rows = [row.split()[0] for row in Path(hosts).read_text("utf-8").splitlines()]
    for address in dict.fromkeys(rows):
        if not address.startswith("127."):
            run("ip", "addr", "add", f"{address}/32", "dev", "lo")
        for port in PORTS:
            listener = socket.create_server((address, port))
            threading.Thread(target=serve, args=(listener, address, port), daemon=True).start()
    command = [program, "net", "fetch", "--stdin", "--json"]
    completed = subprocess.run(
        command, input=sys.stdin.read(), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in completed.stdout.splitlines()]
    sys.stdout.write(json.dumps({"answers": answers, "connections": SEEN}))


if __name__ == "__main__":
    main(*sys.argv[1:])
