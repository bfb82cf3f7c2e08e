# Clean: a build script that runs one short command after the other, each with memory of its own.
import subprocess
import sys

from common import until

JOB = "import hashlib, sys; data = b'x' * (int(sys.argv[1]) << 20); print(hashlib.sha256(data).hexdigest()[:8])"
digests = set()
for i in until(per_second=2):
    size = [20, 40, 80][i % 3]
    digests.add(subprocess.run([sys.executable, "-c", JOB, str(size)], capture_output=True, text=True).stdout.strip())
print("digests", sorted(digests))
