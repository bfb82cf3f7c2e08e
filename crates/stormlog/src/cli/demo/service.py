"""A small service that renders pages for visitors. `stormlog demo` runs and records it.

It has a bug: rendered pages are cached by the session of the visitor. Each visitor gets a new session,
so no page is ever found in the cache, and the cache only grows.
"""

import hashlib
import random
import sys
import time
import uuid

ARTICLES = [f"article-{number}" for number in range(40)]
WORDS = "memory page cache index shard query batch worker latency tenant".split()
REQUESTS_PER_SECOND = 60

PAGES = {}


def render(article, session):
    words = random.Random(article)
    paragraphs = []
    for number in range(60):
        text = " ".join(words.choice(WORDS) for _ in range(80))
        paragraphs.append(f"<p id='{article}-{number}'>{text}</p>")
    return f"<h1>{article}</h1><p>Session {session}</p>" + "\n".join(paragraphs)


def handle(article, session):
    page = PAGES.get(session)
    if page is None:
        page = render(article, session)
        PAGES[session] = page
    return hashlib.sha256(page.encode()).hexdigest()


def serve(seconds):
    requests = 0
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        requests += 1
        handle(random.choice(ARTICLES), str(uuid.uuid4()))
        if requests % (5 * REQUESTS_PER_SECOND) == 0:
            print(f"served {requests} requests", flush=True)
        due = start + requests / REQUESTS_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    try:
        serve(float(sys.argv[1]))
    except KeyboardInterrupt:
        print("stopped")
