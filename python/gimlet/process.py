"""Finds the program `gimlet`, starts it, and turns its error messages into exceptions."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import threading

# The version of this package; a checkout has none. `bridge/wheel.py` and `gimlet shims` write the module.
try:
    from gimlet.version import VERSION
except ImportError:
    VERSION = None


class GimletError(Exception):
    """The program refused or failed; the text is its own message."""


@functools.lru_cache(maxsize=None)
def program():
    """The path of the program: of the variable GIMLET_PROGRAM, else beside this Python, else on the PATH.

    Raises GimletError if there is none, or if it is of another version than this package.
    """
    beside = pathlib.Path(sysconfig.get_path("scripts")) / "gimlet"
    found = os.environ.get("GIMLET_PROGRAM") or (str(beside) if beside.exists() else shutil.which("gimlet"))
    if found is None:
        raise GimletError(f"there is no program `gimlet` in {beside.parent} or on the PATH: "
                          "install Gimlet's wheel in this Python, or set GIMLET_PROGRAM to the program")
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()
    except OSError as error:
        raise GimletError(f"`{found}` cannot be started: {error.strerror}") from None
    version = said[1] if len(said) > 1 else "unknown"
    if VERSION not in (None, version):
        folder = pathlib.Path(__file__).parent
        remedy = f"write it again with `gimlet shims {folder.parent}`" if _is_of_shims() else "install both from one wheel"
        raise GimletError(f"`{found}` has version {version}, and the Python package in {folder} version {VERSION}: "
                          f"{remedy}, and restart the notebook's kernel")
    return found


def _environment():
    """The environment of the program: what it imports is to be the real packages, not those of a folder of `gimlet shims`."""
    folder = pathlib.Path(__file__).resolve().parents[1]
    if "PYTHONPATH" not in os.environ or not _is_of_shims():
        return None
    kept = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if pathlib.Path(path).resolve() != folder]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(kept))


def _is_of_shims():
    return (pathlib.Path(__file__).resolve().parents[1] / "t5x" / "checkpoints.py").exists()


class Process:
    """A running program. Its error message becomes a GimletError; its other words go to standard error."""

    def __init__(self, *words, given=None):
        """Starts it with these words, and gives it the bytes `given` on its standard input, or holds that open if they are None.

        It has a process group of its own: Ctrl-C, which a terminal sends to its whole group, ends this Python's work, which then
        ends the program in order.
        """
        words = [program(), *map(str, words)]
        read, write = os.pipe()
        try:
            self._pipes = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write, env=_environment(),
                                           start_new_session=True, bufsize=1 << 20)
        finally:
            os.close(write)
        # Without a buffer it has no lock, which a fork would copy as the listener holds it.
        self._errors = open(read, "rb", buffering=0)
        self._owner = os.getpid()
        self.output = self._pipes.stdout
        self._message = []
        self._is_closed = False
        # A daemon: a program that is still starting does not keep Python from ending.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if given is not None:
            try:
                self._pipes.stdin.write(given)
                self._pipes.stdin.close()
            except BrokenPipeError:
                pass

    def _listen(self):
        for line in self._errors:
            line = line.decode(errors="replace")
            if line.startswith("error:"):
                self._message = [line]
            elif self._message and not line.startswith("warning:"):
                self._message.append(line)
            elif not self._is_closed and not self.hears(line):
                sys.stderr.write(line)

    def hears(self, line):
        """Takes a line of its standard error that is no error; others are passed on."""
        return False

    def check(self):
        """Waits for the end. Raises GimletError if it failed."""
        status = self._pipes.wait()
        self._listener.join()
        if status != 0:
            text = "".join(self._message).strip().removeprefix("error: ")
            raise GimletError(text or f"`{' '.join(self._pipes.args)}` ended with status {status}")

    def is_alive(self):
        return self._pipes.poll() is None

    def close(self):
        """Ends it, as it ends by itself once this Python has gone: its pipes are closed."""
        if os.getpid() != self._owner:
            # This is a fork, as of a DataLoader: the program is the parent's.
            return
        self._is_closed = True
        for pipe in (self._pipes.stdin, self._pipes.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        if self.is_alive():
            self._pipes.terminate()
        self._pipes.wait()
        self._listener.join()
        self._errors.close()


def run(*words, given=b""):
    """Runs the program to its end and returns the bytes of its standard output."""
    process = Process(*words, given=given)
    try:
        output = process.output.read()
        process.check()
        return output
    finally:
        process.close()


def flags(named):
    """Command-line words for named values: none for None and False, `--name` for True, several for a list."""
    words = []
    for name, value in named.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{name}={one}" for one in value]
        elif value is not None and value is not False:
            words.append(f"--{name}={value}")
    return words
