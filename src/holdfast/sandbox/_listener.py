"""Runs inside the sandbox: opens the proxy's port there, hands it out, and becomes the command.

Started as text (`python -I -S -c`), so it uses built-in modules alone: importing more would cost more than
all the rest.
"""

import _socket
import posix
import sys

_fd, _port, *_argv = sys.argv[1:]
_listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
_listener.bind(("127.0.0.1", int(_port)))
_listener.listen(128)
_outside = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, int(_fd))
_rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _listener.fileno().to_bytes(4, sys.byteorder))
_outside.sendmsg([b"1"], [_rights])
_listener.close()
_outside.close()
posix.execv(_argv[0], _argv)
