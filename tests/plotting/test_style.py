import json
import subprocess
import sys


def test_importing_the_package_does_not_import_matplotlib():
    program = "import json, sys, posse.plotting; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)

    assert "matplotlib" not in loaded
