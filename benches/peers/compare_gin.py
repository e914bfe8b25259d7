"""A configuration of 500 lines: `gimlet gin` against gin-config, in alternating processes.

    pip install gin-config==0.5.0
    python benches/peers/compare_gin.py target/release/gimlet

The file is the operative configuration of tests/language/schemas/t5x.gin with macros added up to 500
lines. Both sides parse it and print it; gin-config registers every selector with **kwargs, as `--untyped`
does, and their outputs must be equal. Figures are CPU time of whole processes, start included.
"""

import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 20
LINES = 500
PRINT = '''
import sys
from gin import config as gc, config_parser as cp

class Collect(cp.ParserDelegate):
    names = []
    def configurable_reference(self, scoped_name, evaluate):
        self.names.append(scoped_name.rsplit("/", 1)[-1])
    def macro(self, scoped_name):
        return None

text = "".join(l for l in open(sys.argv[1]) if not l.startswith("import "))
names = [s.selector for s in cp.ConfigParser(text, Collect()) if getattr(s, "arg_name", "")] + Collect.names
for name in dict.fromkeys(names):
    if not gc._REGISTRY.matching_selectors(name):
        def function(**kwargs): pass
        function.__name__, function.__module__ = name.rsplit(".", 1)[-1], None
        gc._make_configurable(function, name=name)
gc.parse_config(text)
sys.stdout.write(gc.config_str())
'''


def cpu(command):
    """CPU milliseconds of a process and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), output


def main():
    gimlet = sys.argv[1]
    golden = pathlib.Path(__file__).parents[2] / "tests/language/schemas/t5x.golden"
    text = golden.read_text()
    text += "".join(f"MACRO_{i} = {i}\n" for i in range(LINES - text.count("\n")))
    with tempfile.TemporaryDirectory() as folder:
        file, script = f"{folder}/t5x.gin", f"{folder}/print.py"
        pathlib.Path(file).write_text(text)
        pathlib.Path(script).write_text(PRINT)
        commands = {
            "gin-config: parse and print": [sys.executable, script, file],
            "gin-config: import alone": [sys.executable, "-c", "import gin"],
            "gimlet gin print --untyped": [gimlet, "gin", "print", "--untyped", file],
            "gimlet gin print": [gimlet, "gin", "print", file],
            "gimlet gin check": [gimlet, "gin", "check", file],
        }
        times = {name: [] for name in commands}
        for _ in range(ROUNDS):
            outputs = {}
            for name, command in commands.items():
                time, outputs[name] = cpu(command)
                times[name].append(time)
            assert outputs["gin-config: parse and print"] == outputs["gimlet gin print --untyped"]
        for name, found in times.items():
            print(f"{name:32} {statistics.median(found):7.1f} ms ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main()
