"""Bug: the transcript of a chat service is one text that is only ever extended."""

import random

from parts import until


class Transcript:
    def __init__(self):
        self.text = ""
        self.lines = 0

    def add(self, line):
        self.text += line + "\n"  # CULPRIT
        self.lines += 1


def main():
    rnd = random.Random(1)
    transcript = Transcript()
    for n in until(100):
        for user in range(12):
            transcript.add(f"{n} user{user}: " + "".join(rnd.choices("abcdefgh ", k=700)))
    print(transcript.lines > 0)


if __name__ == "__main__":
    main()
