"""Connections whose readers take nothing but the status: `unread.py PORT COUNT`, and what each sends on its input.

Their receive buffers are as small as they get, and so are their segments: otherwise the kernel would take whole answers
from the server. They print their statuses, send line breaks on and on, and end with this program's input.
"""

import json
import select
import socket
import sys

port, count = int(sys.argv[1]), int(sys.argv[2])
request = json.loads(sys.stdin.readline()).encode()
readers = []
for _ in range(count):
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
    reader.connect(("127.0.0.1", port))
    reader.sendall(request)
    readers.append(reader)

print(json.dumps([reader.recv(12).decode() for reader in readers]), flush=True)
while not select.select([sys.stdin], [], [], 0.3)[0]:
    for reader in readers:
        try:
            reader.sendall(b"\r\n")
        except OSError:
            pass
