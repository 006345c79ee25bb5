"""What two texts have in common, as plain loops over characters and words. Imports nothing of ours."""

from collections import Counter
from math import log, sqrt


def tokens(text, length):
    """Words (length 0), or all runs of so many characters."""
    if length == 0:
        return [word for word in text.split(" ") if word]
    if not text:
        return []
    return [text[i : i + length] for i in range(max(1, len(text) - length + 1))]


def weight_of(corpus, length):
    """A function: the inverse document frequency of a token among texts that have any."""
    bags = [set(tokens(text, length)) for text in corpus]
    n = sum(bool(bag) for bag in bags)

    def weight(token):
        if not n:
            return 1.0
        texts = sum(token in bag for bag in bags)
        return log((1 + n) / (1 + max(texts, 1))) + 1

    return weight


def in_common(one, two, length, weight):
    """The nine numbers of bags.IN_COMMON, or None."""
    a, b = Counter(tokens(one, length)), Counter(tokens(two, length))
    if not a or not b:
        return None
    both = sum(weight(t) for t in a if t in b)
    rest_a = [weight(t) for t in a if t not in b]
    rest_b = [weight(t) for t in b if t not in a]
    shares = [both / (both + sum(rest)) for rest in (rest_a, rest_b)]
    rests = [sum(rest) for rest in (rest_a, rest_b)]
    rarest = [max(rest, default=0.0) for rest in (rest_a, rest_b)]
    return [
        cosine(one, two, length, weight),
        max(shares), min(shares),
        max(rests), min(rests),
        max(rarest), min(rarest),
        max((weight(t) for t in a if t in b), default=0.0),
        sum(t in b for t in a),
    ]  # fmt: skip


def cosine(one, two, length, weight):
    a, b = Counter(tokens(one, length)), Counter(tokens(two, length))
    dot = sum(weight(t) ** 2 * sqrt(a[t] * b[t]) for t in a if t in b)
    norms = [sqrt(sum(weight(t) ** 2 * n for t, n in bag.items())) for bag in (a, b)]
    return dot / (norms[0] * norms[1]) if all(norms) else 0.0


def found_in(one, two, weight):
    """(share, rest) of the words of one text that the other has and has not."""
    there = sum(weight(t) for t in set(tokens(one, 0)) if t in tokens(two, 0))
    gone = sum(weight(t) for t in set(tokens(one, 0)) if t not in tokens(two, 0))
    return (there / (there + gone), gone) if there + gone else None


def letters_alike(one, two):
    """Per cent of the letters of both that stand in the longest common subsequence."""
    longest = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for i, x in enumerate(one, 1):
        for j, y in enumerate(two, 1):
            longest[i][j] = (
                longest[i - 1][j - 1] + 1 if x == y else max(longest[i - 1][j], longest[i][j - 1])
            )
    return 100 * 2 * longest[-1][-1] / (len(one) + len(two))


def best_other(texts, among, length, weight, barred):
    """For each text, the best cosine to one of `among` whose number is not in barred[i]."""
    return [
        max(
            (cosine(text, other, length, weight) for j, other in enumerate(among)
             if j not in barred[i]),
            default=0.0,
        )
        for i, text in enumerate(texts)
    ]  # fmt: skip
