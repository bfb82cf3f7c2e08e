# No memory fault: steady memory, then the process is killed by SIGKILL, as a scheduler does.
import os
import random
import signal

from common import until

rng = random.Random(0)
buffer = bytearray(b"x") * (80 << 20)
for i in until(per_second=30):
    buffer[rng.randrange(len(buffer))] = i % 256
print("sum", sum(buffer[::4096]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
