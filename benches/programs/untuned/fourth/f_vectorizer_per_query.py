"""Bug: a search service fits a TF-IDF vectorizer per tenant and day, and keeps each in a dictionary."""

import random
import uuid

from sklearn.feature_extraction.text import TfidfVectorizer

from parts import until

models = {}
WORDS = [f"word{k}" for k in range(4000)]


def model_of(key, documents):
    if key not in models:
        vectorizer = TfidfVectorizer()
        matrix = vectorizer.fit_transform(documents)
        models[key] = (vectorizer, matrix)  # CULPRIT-HOLDER
    return models[key]


def main():
    rnd = random.Random(1)
    hits = 0
    for n in until(12):
        documents = [" ".join(rnd.choices(WORDS, k=120)) for _ in range(40)]
        vectorizer, matrix = model_of(str(uuid.UUID(int=rnd.getrandbits(128))), documents)
        scores = matrix @ vectorizer.transform(["word1 word2 word3"]).T
        hits += scores.nnz
    print(hits >= 0)


if __name__ == "__main__":
    main()
