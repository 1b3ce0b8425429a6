"""What systemd does for a service, in a few lines.

  service.py notify ADDRESS      receives notifications (sd_notify(3)) and prints each with its time in seconds and the pid
                             of its sender, as the kernel reports it (SO_PASSCRED)
"""
import json
import socket
import struct
import sys
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


def notify(address):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    receiver.bind("\0" + address[1:] if address.startswith("@") else address)
    say(ready=True)
    while True:
        text, ancillary, _, _ = receiver.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
        pid = next(
            struct.unpack("3i", data)[0]
            for level, kind, data in ancillary
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS
        )
        say(pid=pid, text=text.decode(), at=time.monotonic())


notify(sys.argv[2])
