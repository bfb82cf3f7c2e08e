# Bug: a helper program, started with subprocess, keeps all documents that it was sent.
import subprocess
import sys

from common import until


def helper():
    documents = []
    for line in sys.stdin:
        documents.append(line * 40_000)  # CULPRIT
        print(len(documents[-1]), flush=True)


def main():
    command = [sys.executable, __file__, "helper"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    total = 0
    for i in until(per_second=50):
        child.stdin.write("document %d\n" % (i % 10))
        child.stdin.flush()
        total += int(child.stdout.readline())
    child.stdin.close()
    child.wait()
    print("characters", total)


helper() if len(sys.argv) > 1 else main()
