"""What a program may not do to its judge, nor to the machine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks import sandbox
from tasks.sandbox import Verdict, Walls, run

needs_namespaces = pytest.mark.skipif(not sandbox.walls().network, reason="no user, process or network namespace here")
needs_proc = pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="no /proc")
needs_own_files = pytest.mark.skipif(not sandbox.walls().files, reason="no mounts in a namespace here")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("assert 1 + 1 == 2", "passed"),
        ("", "passed"),
        ("import collections, json, math, re, typing\nassert __name__ == '__main__'", "passed"),
        ("assert 1 + 1 == 3", "failed"),
        ("def f(:", "failed"),
        ("a = '\0'", "failed"),
        ("a = '\ud800'\nassert a == '?'", "passed"),
        ("input()", "failed"),
        ("import numpy", "failed"),
        ("import pytest", "failed"),
        ("raise KeyboardInterrupt", "failed"),
        ("import sys\nsys.exit(0)\nassert False", "exited"),
        ("raise SystemExit", "exited"),
        ("import os\nos._exit(0)\nassert False", "exited"),
        ("import os\nos.execv('/bin/true', ['true'])", "exited"),
        ("import os\nos.abort()", "crashed"),
        ("import ctypes\nctypes.string_at(0)", "crashed"),
        ("a = bytearray(1 << 32)", "memory"),
        ("a = []\nwhile True: a.append(' ' * 100000)", "memory"),
    ],
)
def test_reasons(program: str, reason: str) -> None:
    verdict = run(program, seconds=10, memory_mib=256)
    assert verdict.reason == reason
    assert verdict.passed == (reason == "passed")


def test_the_detail_shows_the_line_that_failed() -> None:
    assert run("x = 1\nassert x == 2").detail == "AssertionError:  at: assert x == 2"


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        "while True: print('x' * 100000)",
    ],
)
def test_an_endless_program_is_stopped_in_time(program: str) -> None:
    start = time.monotonic()
    assert run(program, seconds=0.5).reason == "timeout"
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    "program",
    [
        "for _ in range(1000): print('x' * 100000)",
        "import os\nfor _ in range(1000): os.write(2, b'x' * 100000)",
    ],
)
def test_a_flood_of_output_goes_nowhere(program: str) -> None:
    tracemalloc.start()
    verdict = run(program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.passed
    assert peak < 10**6


@pytest.mark.parametrize("program", ["raise ValueError('x' * 10**6)", "raise SystemExit('x\\n' * 10**6)"])
def test_a_long_last_word_is_cut(program: str) -> None:
    verdict = run(program)
    assert verdict.reason in ("failed", "exited")
    assert 0 < len(verdict.detail) < 500
    assert "\n" not in verdict.detail


def test_a_pass_without_the_token_is_none() -> None:
    forge = """import os
for fd in range(3, 64):
    try: os.write(fd, b'0 passed\\n')
    except OSError: pass
os._exit(0)"""
    assert run(forge).reason == "crashed"


def test_the_folder_is_empty_and_can_be_written_to() -> None:
    look = (
        "import os, tempfile\nassert os.listdir() == []\nopen('left', 'w').write('x')\nassert os.listdir() == ['left']"
    )
    for _ in range(2):
        assert run(look).passed
    assert run("import tempfile\ntempfile.TemporaryFile().write(b'x')\nopen('/dev/null', 'w').write('x')").passed


def test_nothing_of_a_program_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run("open('left', 'w').write('x')").passed
    assert list(tmp_path.iterdir()) == []


@needs_own_files
def test_a_folder_has_a_largest_size() -> None:
    fill = "for n in range(10_000): open(str(n), 'wb').write(bytes(1 << 19))"
    assert "No space left" in run(fill, seconds=30).detail


@needs_own_files
def test_nothing_outside_can_be_read_or_written(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("secret")
    secret.chmod(0o666)
    for path in (secret, "/etc/passwd", Path.home() / ".bashrc", f"/proc/{os.getpid()}/environ"):
        for do in ("open({!r}).read()", "import os\nos.remove({!r})", "import os\nos.chmod({!r}, 0)"):
            assert run(do.format(str(path))).detail.startswith("FileNotFoundError"), (do, path)
    run(f"import os\nos.makedirs({str(tmp_path)!r})\nopen({str(secret)!r}, 'w').write('x')")
    assert secret.read_text() == "secret"


@needs_own_files
def test_a_python_that_is_reached_by_a_link_is_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.base_prefix)
    executable = tmp_path / "python" / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr(sys, "executable", str(executable))
    look = f"import json, os, sys\nassert sys.base_prefix == {str(tmp_path / 'python')!r}, sys.base_prefix"
    assert run(look + "\nassert os.getcwd() == '/work'") == Verdict("passed")


@needs_own_files
@pytest.mark.parametrize("where", ["/usr", sys.base_prefix, os.path.dirname(os.__file__)])
def test_python_itself_cannot_be_changed_nor_its_walls_taken_down(where: str) -> None:
    assert "Read-only" in run(f"open({where + '/x'!r}, 'w')").detail
    writable = f"""import ctypes
libc = ctypes.CDLL(None)
libc.unshare(0x10020000)
results = libc.mount(b'none', {where.encode()!r}, b'', 32 | 4096, b''), libc.umount2({where.encode()!r}, 2)
assert results == (-1, -1), results
open({where + "/x"!r}, 'w')"""
    assert "Read-only" in run(writable).detail


def test_a_file_has_a_largest_size() -> None:
    assert run("open('big', 'wb').write(bytes(1 << 19))").passed
    assert "File too large" in run("open('big', 'wb').write(bytes(1 << 24))").detail


def test_the_environment_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    look = "import os\nassert not os.environ, dict(os.environ)\nassert not [a for a in __import__('sys').argv[1:]]"
    assert run(look).passed


NAME = "import ctypes\nctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)\n"
CHILD = """import os, time
told, tell = os.pipe()
if os.fork() == 0:
    {}
    os.write(tell, b'here')
    time.sleep(60)
os.read(told, 4)
"""


def alive(name: str) -> int:
    """How many processes of this machine have named themselves so."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # ended meanwhile
            found += path.read_text().strip() == name
    return found


@needs_proc
@pytest.mark.parametrize(
    ("rest", "reason"), [("", "passed"), ("os._exit(0)", "exited"), ("while True: time.sleep(1)", "timeout")]
)
@pytest.mark.parametrize("leave", ["pass", pytest.param("os.setsid()", marks=needs_namespaces)])
def test_a_child_does_not_outlive_its_program(leave: str, rest: str, reason: str) -> None:
    """Whether or not it has left the group."""
    name = uuid.uuid4().hex[:12]
    program = NAME.format(name) + CHILD.format(leave) + rest
    assert run(program, seconds=1.5 if reason == "timeout" else 10).reason == reason
    assert alive(name) == 0


@needs_proc
def test_children_that_nobody_waited_for_are_gone() -> None:
    name = uuid.uuid4().hex[:12]
    zombies = "import os\nfor _ in range(20):\n    if os.fork() == 0: os._exit(0)\n"
    assert run(NAME.format(name) + zombies).passed
    assert alive(name) == 0


@needs_proc
def test_a_program_dies_with_a_killed_benchmark() -> None:
    name = uuid.uuid4().hex[:12]
    program = NAME.format(name) + "import time\ntime.sleep(60)"
    judge = subprocess.Popen(
        [sys.executable, "-c", f"from tasks import sandbox\nsandbox.run({program!r}, seconds=60)"],
        env={**os.environ, "PYTHONPATH": str(Path(sandbox.__file__).parent.parent)},
    )
    _wait_until(lambda: alive(name) > 0)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    _wait_until(lambda: alive(name) == 0)


def _wait_until(come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not come():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_namespaces
@pytest.mark.parametrize(
    ("kill", "reason"),
    [
        ("os.kill(os.getppid(), 9)", "passed"),
        ("os.killpg(0, 9)", "passed"),
        ("os.kill(-1, 9)", "failed"),
        ("while True: os.kill(os.getppid(), 9)", "timeout"),
    ],
)
def test_the_judge_cannot_be_killed(kill: str, reason: str) -> None:
    """The program sees no parent (0 is its own group), and as the first of its processes survives its own signals."""
    assert run(f"import os\n{kill}", seconds=1.5 if reason == "timeout" else 10).reason == reason
    assert run(f"import os\nos.kill({os.getpid()}, 9)").detail.startswith("ProcessLookupError")


@pytest.mark.parametrize("patched", ["sys.exit", "os._exit", "os.fork", "os.kill", "os.waitpid", "os.dup2"])
def test_patched_functions_are_the_programs_own_trouble(patched: str) -> None:
    patch = f"import os, sys\n{patched} = lambda *_: None\n"
    assert run(patch).passed
    assert run(f"{patch}assert False").reason == "failed"


@needs_namespaces
def test_the_number_of_processes_is_limited() -> None:
    """Two hundred sleeping children at the very most, should the limit fail."""
    bomb = (
        "import os, time\ncount = 0\ntry:\n    while count < 200:\n        if os.fork() == 0: time.sleep(60)\n"
        "        count += 1\nexcept BlockingIOError: pass\nassert 8 < count < 64, count"
    )
    verdict = run(bomb)
    assert verdict.passed, verdict


@needs_namespaces
@needs_proc
def test_a_fork_bomb_ends_with_its_time() -> None:
    """Its processes may fork no more than the limit, and none is left."""
    name = uuid.uuid4().hex[:12]
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run(NAME.format(name) + bomb, seconds=1.5).reason == "timeout"
    assert alive(name) == 0


@needs_namespaces
def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)"
        socket.create_connection(("127.0.0.1", port), timeout=2).close()  # it does answer
        verdict = run(call)
    assert verdict.reason == "failed"
    assert "unreachable" in verdict.detail


@needs_proc
def test_the_walls_are_told_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = "import ctypes, sys\nsys.exit(ctypes.CDLL(None).unshare(0x70000000) != 0)"
    assert sandbox.walls().network == (subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0)
    assert [Walls(*up).told for up in ((True, True), (True, False), (False, False))] == [
        "no network, no files and no processes but its own",
        "no network and no processes but its own; its user's FILES STAY OPEN: mounting is refused here",
        "limits only; NETWORK, FILES AND PROCESSES of its user STAY OPEN: namespaces are refused here",
    ]


REFUSED = """
import ctypes
from tasks import sandbox
assert ctypes.CDLL(None).unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", "0 {uid} 1"), ("gid_map", "0 {gid} 1")):
    open("/proc/self/" + name, "w").write(text)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
assert sandbox.walls() == sandbox.Walls(False, False)
assert sandbox.run("open('x', 'w').write('x')").passed
assert sandbox.run("while True: pass", seconds=0.5).reason == "timeout"
"""


@needs_namespaces
def test_programs_are_judged_where_the_kernel_refuses_namespaces() -> None:
    subprocess.run(
        [sys.executable, "-c", REFUSED.format(uid=os.geteuid(), gid=os.getegid())],
        env={**os.environ, "PYTHONPATH": str(Path(sandbox.__file__).parent.parent)},
        check=True,
    )


def test_a_broken_sandbox_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CHILD", tmp_path / "missing.py")
    with pytest.raises(RuntimeError, match=r"could not start: .*missing\.py"):
        run("")


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/dev/fd"))
    for program in ("", "assert False", "import os\nos._exit(3)"):
        run(program)
    assert len(os.listdir("/dev/fd")) == before
