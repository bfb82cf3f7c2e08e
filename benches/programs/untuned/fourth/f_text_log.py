"""Bug: the transcript of a chat service is one buffer that is only ever extended."""

import random

from parts import until


class Transcript:
    def __init__(self):
        self.data = bytearray()
        self.lines = 0

    def add(self, line):
        self.data += line.encode()  # CULPRIT
        self.lines += 1


def main():
    rnd = random.Random(1)
    transcript = Transcript()
    for n in until(60):
        for user in range(12):
            transcript.add(f"{n} user{user}: {rnd.randbytes(2000).hex()}\n")
    print(transcript.lines > 0)


if __name__ == "__main__":
    main()
