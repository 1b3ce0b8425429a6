"""What systemd does for a service, in a few lines.

  service.py notify ADDRESS      receives notices (sd_notify(3)) and prints each with its time in seconds and the pid
                                 of its sender, as the kernel says it (SO_PASSCRED)
  service.py sockets COMMAND...  opens a port of IPv4 and one of IPv6, prints both, and starts the command with them
                                 (sd_listen_fds(3)) for each line of input; its output is the command's
"""
import json
import os
import socket
import struct
import subprocess
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


def sockets(command):
    opened = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        each = socket.socket(family, socket.SOCK_STREAM)
        each.bind((address, 0))
        each.listen(100)
        opened.append(each)
    say(ports=[each.getsockname()[1] for each in opened])

    def take():
        # Above the descriptors that they get, so that none overwrites another.
        high = [os.dup2(each.fileno(), 50 + index) for index, each in enumerate(opened)]
        for index, descriptor in enumerate(high):
            os.dup2(descriptor, 3 + index)
            os.close(descriptor)

    for names in sys.stdin:
        environment = {**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": names.strip()}
        shell = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *command]
        subprocess.run(shell, env=environment, preexec_fn=take, close_fds=False, stdin=subprocess.DEVNULL)
        say(ended=True)


if sys.argv[1] == "notify":
    notify(sys.argv[2])
else:
    sockets(sys.argv[2:])
