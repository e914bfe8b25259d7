#!/usr/bin/env python3
"""Fetch what the build needs and a fresh machine lacks. `make` calls this; it is safe to repeat.

    bridge/setup.py libtorch   the CPU half of PyTorch's wheel into .libtorch/{lib,include}
    bridge/setup.py cuda       the full CUDA wheel set into .libtorch-cuda/{torch,nvidia}
    bridge/setup.py cmake      cmake into .libtorch/venv, where the machine has none

Everything comes from PyPI through pip in a virtual environment of its own, and lies in folders
that git ignores; deleting them undoes it. Only shared libraries and headers are unpacked, and no
Python of the wheels ever runs, so the machine's own Python version does not matter. A LIBTORCH
that the user has set wins, if it is the version that the bridge is written for.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

TORCH_VERSION = "2.11.0"
ROOT = Path(__file__).resolve().parent.parent
CPU_DIR = ROOT / ".libtorch"
CUDA_DIR = ROOT / ".libtorch-cuda"
VENV = CPU_DIR / "venv"
# Wheels are picked for this Python whatever the machine's is: their C++ is the same.
WHEEL_PYTHON = "3.12"

# libtorch_cpu.so of PyPI's wheel is linked against CUDA's runtime and profiler, small both.
CPU_WHEELS = [
    f"torch=={TORCH_VERSION}",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-cuda-cupti==13.0.*",
]
# torch-sys links CUDA as soon as it sees libtorch_cuda.so, hence the list and not the folder.
CPU_LIBRARIES = [
    "libc10.so",
    "libcudart.so.13",
    "libcupti.so.13",
    "libgomp.so.1",
    "libtorch_cpu.so",
]
# libtorch.so is a shell that would load CUDA; gcc's own libgomp.so is not on every machine.
CPU_LINKS = {"libtorch.so": "libtorch_cpu.so", "libgomp.so": "libgomp.so.1"}
# What torch 2.11.0 itself requires, the headers that the bridge's CUDA half includes (crt, cccl, cudnn-frontend), and
# the compiler of its kernels (nvcc, nvvm).
CUDA_WHEELS = CPU_WHEELS + [
    "nvidia-cublas==13.1.0.3",
    "nvidia-cuda-cccl==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-nvrtc==13.0.*",
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cudnn-frontend==1.32.0",
    "nvidia-cufft==12.0.0.61",
    "nvidia-cufile==1.15.1.6",
    "nvidia-curand==10.4.0.35",
    "nvidia-cusolver==12.0.4.66",
    "nvidia-cusparse==12.6.3.3",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvjitlink==13.0.*",
    "nvidia-nvshmem-cu13==3.4.5",
]
# Where its headers go, which its wheel leaves beside all packages.
CUDNN_FRONTEND = "nvidia/cudnn_frontend/include"


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    commands = {"libtorch": set_up_cpu, "cuda": set_up_cuda, "cmake": set_up_cmake}
    if command not in commands:
        sys.exit(__doc__)
    commands[command]()


def set_up_cpu():
    if check_own_libtorch():
        return
    if is_complete(CPU_DIR, [CPU_DIR / "lib" / name for name in CPU_LIBRARIES]):
        link_libraries()
        return
    say(f"fetching libtorch {TORCH_VERSION} for CPUs into {CPU_DIR.name}/ (540 MB, once)")
    wheels = download(CPU_WHEELS, CPU_DIR / "wheels")
    clear(CPU_DIR, ["lib", "include", "build-version"])
    for wheel in wheels:
        unpack(wheel, CPU_DIR, cpu_destination)
    link_libraries()
    finish(CPU_DIR, CPU_DIR)


def set_up_cuda():
    if check_own_libtorch():
        return
    torch = CUDA_DIR / "torch"
    last = ["nvidia/cu13/bin/nvcc", f"{CUDNN_FRONTEND}/cudnn_frontend.h"]
    if is_complete(torch, [torch / "lib" / "libtorch_cuda.so", *(CUDA_DIR / name for name in last)]):
        return
    say(f"fetching libtorch {TORCH_VERSION} for CUDA 13 into {CUDA_DIR.name}/ (2.6 GB, once)")
    wheels = download(CUDA_WHEELS, CUDA_DIR / "wheels")
    clear(CUDA_DIR, ["torch", "nvidia"])
    for wheel in wheels:
        unpack(wheel, CUDA_DIR, cuda_destination)
    finish(CUDA_DIR, torch)


def set_up_cmake():
    # Run it: a version manager's shim can be on PATH with nothing behind it.
    for cmake in ["cmake", VENV / "bin" / "cmake"]:
        try:
            subprocess.run([cmake, "--version"], check=True, capture_output=True)
            return
        except (OSError, subprocess.CalledProcessError):
            pass
    say("fetching cmake into .libtorch/venv/ (28 MB, once)")
    run([venv_python(), "-m", "pip", "install", "--quiet", "cmake==3.31.*"])


def check_own_libtorch():
    """True if the user's LIBTORCH is to be used; exits if it is of another version."""
    own = os.environ.get("LIBTORCH")
    if not own or Path(own).resolve() in (CPU_DIR.resolve(), (CUDA_DIR / "torch").resolve()):
        return False
    found = version_of(Path(own))
    if found and found.split("+")[0] != TORCH_VERSION:
        sys.exit(
            f"error: LIBTORCH={own} is version {found}, but Gimlet needs {TORCH_VERSION}: "
            "unset LIBTORCH to have the right one fetched"
        )
    return True


def version_of(libtorch):
    """The version that a libtorch folder states, in its archive's form or in the wheel's."""
    stated = libtorch / "build-version"
    if stated.is_file():
        return stated.read_text().strip()
    wheel = libtorch / "version.py"
    if wheel.is_file():
        match = re.search(r"__version__ = '([^']+)'", wheel.read_text())
        return match.group(1) if match else None
    return None


def is_complete(folder, files):
    """True if an earlier run came to its end; the stamp is written last."""
    stamp = folder / "build-version"
    complete = version_of(folder) == TORCH_VERSION and all(path.exists() for path in files)
    if complete:
        stamp.touch()  # Make compares it with this script.
    return complete


def link_libraries():
    for name, target in CPU_LINKS.items():
        link = CPU_DIR / "lib" / name
        if not link.is_symlink():
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def clear(folder, names):
    """Remove what an interrupted run or an older version left."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def finish(folder, libtorch):
    shutil.rmtree(folder / "wheels")
    (libtorch / "build-version").write_text(TORCH_VERSION + "\n")
    say(f"libtorch {TORCH_VERSION} is ready in {libtorch}")


def venv_python():
    """A Python with pip that is nobody else's, so that nothing of the machine's is changed."""
    python = VENV / "bin" / "python"
    if not (VENV / "bin" / "pip").exists():
        VENV.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV])
        if made.returncode != 0:
            sys.exit(
                "error: python3 cannot make a virtual environment: "
                "install python3-venv (Debian, Ubuntu: apt-get install python3-venv)"
            )
    return python


def download(requirements, folder):
    """Download wheels, each without its dependencies; a second call resumes."""
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)]
    arguments = ["--no-deps", "--only-binary=:all:", "--python-version", WHEEL_PYTHON]
    for tag in platforms + [f"manylinux2014_{machine}"]:
        arguments += ["--platform", tag]
    pip = [venv_python(), "-m", "pip", "download", "--disable-pip-version-check"]
    run(pip + arguments + ["--dest", folder] + requirements)
    return sorted(folder.glob("*.whl"))


def unpack(wheel, folder, destination):
    """Unpack the members that `destination` gives a place to, then drop the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            place = None if member.is_dir() else destination(member.filename)
            if place is None:
                continue
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            target.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
    wheel.unlink()


def cpu_destination(name):
    if name.startswith("torch/include/") or name == "torch/version.py":
        return name.removeprefix("torch/")
    is_library = name.startswith(("torch/lib/", "nvidia/")) and Path(name).name in CPU_LIBRARIES
    return Path("lib") / Path(name).name if is_library else None


def cuda_destination(name):
    """The wheels' own places: torch's libraries find NVIDIA's by relative paths."""
    if name.startswith("include/cudnn"):
        return name.replace("include", CUDNN_FRONTEND, 1)
    kept = ("torch/include/", "torch/lib/", "torch/version.py", "nvidia/")
    return name if name.startswith(kept) else None


def run(command):
    if subprocess.run(command).returncode != 0:
        sys.exit(f"error: failed: {' '.join(str(word) for word in command)}")


def say(text):
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    main()
