"""The other side of `sandbox.run`: a script that confines itself, then runs the program of its order.

It is started once per program, so it imports little; nothing here is for importing.
"""

import os
import resource
import signal
import sys

PROCESSES = 32
FILE_BYTES = 1 << 20
FOLDER_BYTES = 16 << 20
NOBODY = 65534
FOLDER = "/work"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

NEW_FILES, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SETUID, NO_DEVICES, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 1 << 5, 1 << 12, 1 << 14, 1 << 18
KEPT, RELATIVE_TIMES = 0b110000001111, 1 << 21
"""Flags of a mount that a remount must repeat: read-only, no setuid, devices, programs, times; they are statvfs's too,
but for the last one."""


def main() -> None:
    """Take the order from standard input, run the program in a fork, watch over the fork, and die."""
    order, _, program = sys.stdin.buffer.read().decode().partition("\n")
    token, report, memory, cpu = order.split()
    isolate()
    for kind, value in (
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, int(cpu)),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        limit(kind, value)
    leave = os._exit  # the program may put another one in its place
    child = 0

    def stop(*_: object) -> None:
        if child:
            kill_group(child)

    signal.signal(signal.SIGTERM, stop)
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()  # a signal to its own group does not reach us
        die_with_parent()
        give_up_rights()
        limit(resource.RLIMIT_NPROC, PROCESSES)  # after our own fork: it may count all processes of the user
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        execute(program, int(report), token)
        leave(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # until it is waited for, its group is surely still its own
    kill_group(child)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ending = f"exited status {code}" if code >= 0 else f"crashed signal {-code}"
    os.write(int(report), f"{token} {ending}\n".encode())  # of no effect after a report of the child's own
    leave(0)


def kill_group(leader: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not have a group yet
        try:  # noqa: SIM105 - contextlib would double the time to start
            kill(leader, signal.SIGKILL)
        except OSError:
            pass


def execute(program: str, report: int, token: str) -> None:
    """Run the program as `__main__` and write one line on how it ended, if it lets us."""
    out_of_memory = f"{token} memory\n".encode()  # made while there still is some
    os.environ.clear()  # the interpreter may have set LC_CTYPE
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    try:
        exec(compile(program, "<program>", "exec"), module.__dict__)
        message = "passed"
    except SystemExit as leave:
        message = f"exited {leave!r}"
    except MemoryError:
        os.write(report, out_of_memory)
        return
    except BaseException as error:  # noqa: BLE001
        inside = error.__traceback__ and error.__traceback__.tb_next
        line = f" at: {program.splitlines()[inside.tb_lineno - 1].strip()[:150]}" if inside else ""
        message = f"failed {type(error).__name__}: {str(error)[:150]}{line}"
    os.write(report, f"{token} {' '.join(message[:400].splitlines())}\n".encode(errors="replace"))


def isolate() -> None:
    """New user, network, process and file namespaces, if the kernel grants them: a refusal is no error."""
    if os.getuid() == 0:
        try:  # noqa: SIM105
            os.setresuid(NOBODY, 0, 0)  # the limit on processes spares root; files are still read as root
        except OSError:
            pass  # a container without such a user
    die_with_parent()
    if sys.platform != "linux":
        return
    user, group = os.geteuid(), os.getegid()
    if call("unshare", NEW_USER | NEW_PROCESSES | NEW_NETWORK | NEW_FILES) == 0:
        try:
            own = f"{NOBODY} {user} 1", f"{NOBODY} {group} 1"
            for name, value in zip(("setgroups", "uid_map", "gid_map"), ("deny", *own), strict=True):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(value)
            enclose()
        except OSError:
            pass  # network and processes are apart all the same


def enclose() -> None:
    """A file system of its own: Python and the system's programs, which cannot be written to, and an empty folder.

    It lies in memory and is gone with its last process. Raises OSError where mounting is refused.
    """
    root = os.getcwd()
    mount("none", "/", "", RECURSIVE | PRIVATE)
    mount("none", root, "tmpfs", NO_SETUID | NO_DEVICES, f"size={FOLDER_BYTES},mode=755")
    paths = [*DEVICES, *SYSTEM, sys.base_prefix, sys.base_exec_prefix, *sys.path]
    for path in paths:
        inside = root + path
        if not os.path.exists(path) or os.path.lexists(inside):
            continue
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), inside)
            paths.append(os.path.realpath(path))
            continue
        if os.path.isdir(path):
            os.mkdir(inside)
        else:
            os.close(os.open(inside, os.O_CREAT))
        mount(path, inside, "", BIND | RECURSIVE)
        if path not in DEVICES:
            flags = os.statvfs(inside).f_flag
            relative = RELATIVE_TIMES if flags & os.ST_RELATIME else 0
            mount("none", inside, "", REMOUNT | BIND | READ_ONLY | flags & KEPT | relative)
    for folder in ("/tmp", "/dev/shm", FOLDER):
        os.makedirs(root + folder, exist_ok=True)
    os.chroot(root)
    os.chdir(FOLDER)


def give_up_rights() -> None:
    """Those over the namespaces, with which the program could undo them."""
    if sys.platform == "linux":
        import ctypes

        no_new_privileges, version = 38, 0x20080522
        call("prctl", no_new_privileges, 1, 0, 0, 0)
        call("capset", (ctypes.c_uint32 * 2)(version, 0), (ctypes.c_uint32 * 6)())


def die_with_parent() -> None:
    """Else a killed benchmark would leave sleeping programs behind."""
    if sys.platform == "linux":
        set_death_signal = 1
        call("prctl", set_death_signal, int(signal.SIGKILL), 0, 0, 0)


def limit(kind: int, value: int) -> None:
    """Lower a limit; one that is lower already stays. macOS takes none on the address space."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    if not (sys.platform == "darwin" and kind == resource.RLIMIT_AS):
        resource.setrlimit(kind, (value, value))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Raises OSError."""
    if call("mount", source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(f"cannot mount {target}")


def call(name: str, *arguments: object) -> int:
    """A function of the C library."""
    import ctypes

    result: int = getattr(ctypes.CDLL(None), name)(*arguments)
    return result


if __name__ == "__main__":
    main()
